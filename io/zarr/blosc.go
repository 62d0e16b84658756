package zarr

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// Header size and flags of a Blosc buffer, with the names of c-blosc:
// BLOSC_DOSHUFFLE, BLOSC_MEMCPYED, BLOSC_DOBITSHUFFLE. Bit 4 disables the split of
// blocks.
const (
	bloscHeader     = 16
	bloscShuffled   = 0x01
	bloscMemcpyed   = 0x02 // uncompressed data follow the header
	bloscBitShuffle = 0x04
	bloscNoSplit    = 0x10 // blocks are not split into one stream per byte of an element
	bloscMaxSplits  = 16
	bloscMinSplit   = 128 // minimum bytes of a split stream
)

// bloscCompressors lists the supported compressors by their number in the flags.
// Number 2 (snappy) is not supported.
var bloscCompressors = map[byte]struct {
	name   string
	decode func(dst, src []byte) error
}{
	0: {"blosclz", decodeBloscLZ}, 1: {"lz4", decodeLZ4Block}, 3: {"zlib", exactSize(decodeZlib)}, 4: {"zstd", exactSize(decodeZstd)},
}

// decodeBlosc decodes a Blosc 1 buffer. The header has 16 bytes: version, version
// of the compressor, flags, element size; then uncompressed size, block size and
// compressed size as uint32, little-endian. Offsets of the blocks follow.
//
// Errors: a header that contradicts itself or the data, streams of wrong length,
// more than limit bytes.
// Source: c-blosc 1.21, README_CHUNK_FORMAT.rst and blosc.c (blosc_d).
func decodeBlosc(src []byte, limit int) ([]byte, error) {
	if len(src) < bloscHeader {
		return nil, fmt.Errorf("%d bytes are too short for a Blosc header", len(src))
	}
	// Header: bytes 0 format version, 1 compressor version, 2 flags, 3 element
	// size; then uncompressed size, block size and compressed size (with the
	// header). The compressor is in bits 5 to 7 of the flags.
	version, flags, size := src[0], src[2], int(src[3])
	total, block, packed := int64(binary.LittleEndian.Uint32(src[4:])), int64(binary.LittleEndian.Uint32(src[8:])), int64(binary.LittleEndian.Uint32(src[12:]))
	format, known := bloscCompressors[flags>>5]
	switch {
	case version < 1 || version > 2:
		return nil, fmt.Errorf("unknown Blosc format version %d", version)
	case packed != int64(len(src)):
		return nil, fmt.Errorf("the Blosc header states %d bytes, the chunk has %d", packed, len(src))
	case total > int64(limit):
		return nil, fmt.Errorf("a Blosc buffer that expands to %d bytes, more than %d", total, limit)
	case total == 0:
		return []byte{}, nil
	case flags&bloscMemcpyed != 0:
		if packed != total+bloscHeader {
			return nil, fmt.Errorf("a Blosc buffer with %d uncompressed bytes in %d", total, packed)
		}
		return src[bloscHeader:], nil
	case !known:
		return nil, fmt.Errorf("unsupported Blosc compressor %d", flags>>5)
	case block < 1 || size < 1:
		return nil, fmt.Errorf("a Blosc buffer with blocks of %d bytes and elements of %d bytes", block, size)
	}
	// The offsets of all blocks follow the header. The last block may be shorter.
	block = min(block, total)
	blocks := (total + block - 1) / block
	if bloscHeader+4*blocks > packed {
		return nil, fmt.Errorf("a Blosc buffer with %d blocks in %d bytes", blocks, packed)
	}
	out, scratch := make([]byte, total), []byte(nil)
	for k := range blocks {
		dst := out[k*block : min((k+1)*block, total)]
		at := int64(binary.LittleEndian.Uint32(src[bloscHeader+4*k:]))
		// c-blosc splits a block into one stream per byte of an element if streams
		// have at least bloscMinSplit bytes. It never splits the last, shorter
		// block.
		streams := 1
		if n := len(dst); flags&bloscNoSplit == 0 && size <= bloscMaxSplits && n/size >= bloscMinSplit && int64(n) == block {
			streams = size
		}
		into := dst
		shuffled := flags&bloscShuffled != 0 && size > 1
		// Bit shuffle needs a multiple of eight elements; c-blosc stores other
		// blocks unshuffled.
		bits := !shuffled && flags&bloscBitShuffle != 0 && len(dst) >= size && len(dst)/size%8 == 0
		// Streams are decoded to scratch first, because unshuffling is not possible
		// in place.
		if shuffled || bits {
			if scratch == nil {
				scratch = make([]byte, block)
			}
			into = scratch[:len(dst)]
		}
		if err := decodeStreams(into, src, at, streams, format.decode); err != nil {
			return nil, fmt.Errorf("block %d of a Blosc buffer (%s): %w", k+1, format.name, err)
		}
		if shuffled {
			unshuffle(dst, into, size)
		} else if bits {
			unshuffleBits(dst, into, size)
		}
	}
	return out, nil
}

// decodeStreams decodes the streams of one block. The length of each stream
// precedes it. A stream as long as its result is uncompressed.
func decodeStreams(dst, src []byte, at int64, streams int, decode func(dst, src []byte) error) error {
	each := len(dst) / streams
	for s := range streams {
		if at < bloscHeader || at+4 > int64(len(src)) {
			return fmt.Errorf("a stream at byte %d of %d", at, len(src))
		}
		n := int64(binary.LittleEndian.Uint32(src[at:]))
		if at += 4; n > int64(len(src))-at {
			return fmt.Errorf("a stream of %d bytes, only %d are left", n, int64(len(src))-at)
		}
		to, from := dst[s*each:(s+1)*each], src[at:at+n]
		if int(n) == each {
			copy(to, from)
		} else if err := decode(to, from); err != nil {
			return err
		}
		at += n
	}
	if each*streams != len(dst) {
		return fmt.Errorf("a block of %d bytes in %d streams", len(dst), streams)
	}
	return nil
}

// exactSize adapts a decoder whose result must fill dst.
func exactSize(decode decodeFunc) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		b, err := decode(src, len(dst))
		if err != nil {
			return err
		}
		if len(b) != len(dst) {
			return fmt.Errorf("got %d bytes, want %d", len(b), len(dst))
		}
		copy(dst, b)
		return nil
	}
}

// decodeLZ4Block decodes an LZ4 block that must fill dst.
func decodeLZ4Block(dst, src []byte) error {
	n, err := lz4.UncompressBlock(src, dst)
	if err == nil && n != len(dst) {
		err = fmt.Errorf("got %d bytes, want %d", n, len(dst))
	}
	return err
}

// errBloscLZ reports a control byte that exceeds the source or the destination.
var errBloscLZ = errors.New("the BloscLZ stream is damaged")

// decodeBloscLZ decodes a BloscLZ stream, which must fill dst. A control byte below
// 32 precedes that number plus one of literals. Other control bytes begin a match:
// three bits of length, five plus eight bits of distance, and further bytes for
// longer lengths and distances.
//
// Source: c-blosc 1.21, blosclz.c (blosclz_decompress).
func decodeBloscLZ(dst, src []byte) error {
	const far = 8191 // longest distance in 13 bits
	if len(src) == 0 {
		return errBloscLZ
	}
	control, in, out := int(src[0]&31), 1, 0
	for {
		// Literals: control+1 bytes.
		if control < 32 {
			n := control + 1
			if out+n > len(dst) || in+n > len(src) {
				return errBloscLZ
			}
			copy(dst[out:], src[in:in+n])
			out, in = out+n, in+n
		} else {
			// Match: length in bits 5 to 7 plus 2, upper five bits of the distance
			// in bits 0 to 4.
			n, distance := control>>5+2, (control&31)<<8
			// Length 7 continues in further bytes until one is below 255.
			for more := control>>5 == 7; more; in++ {
				if in+1 >= len(src) {
					return errBloscLZ
				}
				n += int(src[in])
				more = src[in] == 255
			}
			if in >= len(src) {
				return errBloscLZ
			}
			low := int(src[in])
			in++
			// Distance 8191 and above: 16 further bits.
			if low == 255 && distance == 31<<8 {
				if in+1 >= len(src) {
					return errBloscLZ
				}
				distance, low = int(src[in])<<8|int(src[in+1]), far
				in += 2
			}
			distance += low + 1
			if out+n > len(dst) || distance > out {
				return errBloscLZ
			}
			for k := range n { // a match may overlap its result
				dst[out+k] = dst[out+k-distance]
			}
			out += n
		}
		if in >= len(src) {
			break
		}
		control = int(src[in])
		in++
	}
	if out != len(dst) {
		return fmt.Errorf("got %d bytes, want %d", out, len(dst))
	}
	return nil
}

// unshuffle reverses the byte shuffle, which stores the first bytes of all
// elements, then the second bytes and so on. Bytes that do not fill an element are
// at the end unchanged.
func unshuffle(dst, src []byte, size int) {
	n := len(src) / size
	for k := range size {
		plane := src[k*n : (k+1)*n]
		for i, b := range plane {
			dst[i*size+k] = b
		}
	}
	copy(dst[n*size:], src[n*size:])
}

// unshuffleBits reverses the bit shuffle. Bit b of byte k of all n elements is
// stored in n/8 bytes at offset (8k+b)·n/8; element i has bit i mod 8 of byte i/8.
//
// Source: c-blosc 1.21, bitshuffle-generic.c.
func unshuffleBits(dst, src []byte, size int) {
	n := len(src) / size
	row := n / 8
	for k := range size {
		for g := range row {
			var x uint64 // bits of elements 8g to 8g+7, one byte per bit number
			for b := range 8 {
				x |= uint64(src[(8*k+b)*row+g]) << (8 * b)
			}
			x = transpose8x8(x)
			for i := range 8 {
				dst[(8*g+i)*size+k] = byte(x >> (8 * i))
			}
		}
	}
	copy(dst[n*size:], src[n*size:])
}

// transpose8x8 transposes a matrix of 8×8 bits: bit i of byte b becomes bit b of
// byte i.
//
// Source: Warren, Hacker's Delight, 2nd ed., section 7-3.
func transpose8x8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}
