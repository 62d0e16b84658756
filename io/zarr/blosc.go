package zarr

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// Header of a Blosc buffer, and its flags.
const (
	bloscHeader     = 16
	bloscShuffled   = 0x01
	bloscMemcpyed   = 0x02 // the bytes as they are follow the header
	bloscBitShuffle = 0x04
	bloscNoSplit    = 0x10 // blocks are not cut into streams of one byte of each element
	bloscMaxSplits  = 16
	bloscMinSplit   = 128 // bytes of such a stream at least
)

// bloscCompressors are the compressors inside, by the number in the flags.
var bloscCompressors = map[byte]struct {
	name string
	undo func(dst, src []byte) error
}{
	0: {"blosclz", decodeBloscLZ}, 1: {"lz4", decodeLZ4Block}, 3: {"zlib", exactSize(decodeZlib)}, 4: {"zstd", exactSize(decodeZstd)},
}

// decodeBlosc undoes a Blosc 1 buffer.
//
// Errors: a header that contradicts itself or the bytes that are there, streams that do
// not end where they should, more than limit bytes.
// Source: c-blosc 1.21, README_CHUNK_FORMAT.rst and blosc.c (blosc_d).
func decodeBlosc(src []byte, limit int) ([]byte, error) {
	if len(src) < bloscHeader {
		return nil, fmt.Errorf("%d bytes are no Blosc buffer", len(src))
	}
	version, flags, size := src[0], src[2], int(src[3])
	total, block, packed := int64(binary.LittleEndian.Uint32(src[4:])), int64(binary.LittleEndian.Uint32(src[8:])), int64(binary.LittleEndian.Uint32(src[12:]))
	format, known := bloscCompressors[flags>>5]
	switch {
	case version < 1 || version > 2:
		return nil, fmt.Errorf("format %d of Blosc is not known", version)
	case packed != int64(len(src)):
		return nil, fmt.Errorf("a Blosc buffer of %d bytes in %d", packed, len(src))
	case total > int64(limit):
		return nil, fmt.Errorf("a Blosc buffer that becomes %d bytes, more than %d", total, limit)
	case total == 0:
		return []byte{}, nil
	case flags&bloscMemcpyed != 0:
		if packed != total+bloscHeader {
			return nil, fmt.Errorf("a Blosc buffer of %d plain bytes in %d", total, packed)
		}
		return src[bloscHeader:], nil
	case !known:
		return nil, fmt.Errorf("compressor %d of Blosc is not supported", flags>>5)
	case block < 1 || size < 1:
		return nil, fmt.Errorf("blocks of %d bytes and elements of %d in a Blosc buffer", block, size)
	}
	block = min(block, total)
	blocks := (total + block - 1) / block
	if bloscHeader+4*blocks > packed {
		return nil, fmt.Errorf("%d blocks of a Blosc buffer in %d bytes", blocks, packed)
	}
	out, scratch := make([]byte, total), []byte(nil)
	for k := range blocks {
		dst := out[k*block : min((k+1)*block, total)]
		at := int64(binary.LittleEndian.Uint32(src[bloscHeader+4*k:]))
		streams := 1
		if n := len(dst); flags&bloscNoSplit == 0 && size <= bloscMaxSplits && n/size >= bloscMinSplit && int64(n) == block {
			streams = size
		}
		into := dst
		shuffled := flags&bloscShuffled != 0 && size > 1
		bits := !shuffled && flags&bloscBitShuffle != 0 && len(dst) >= size && len(dst)/size%8 == 0
		if shuffled || bits {
			if scratch == nil {
				scratch = make([]byte, block)
			}
			into = scratch[:len(dst)]
		}
		if err := decodeStreams(into, src, at, streams, format.undo); err != nil {
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

// decodeStreams undoes the streams of one block, each behind its length.
func decodeStreams(dst, src []byte, at int64, streams int, undo func(dst, src []byte) error) error {
	each := len(dst) / streams
	for s := range streams {
		if at < bloscHeader || at+4 > int64(len(src)) {
			return fmt.Errorf("a stream at byte %d of %d", at, len(src))
		}
		n := int64(binary.LittleEndian.Uint32(src[at:]))
		if at += 4; n > int64(len(src))-at {
			return fmt.Errorf("a stream of %d bytes, %d are left", n, int64(len(src))-at)
		}
		to, from := dst[s*each:(s+1)*each], src[at:at+n]
		if int(n) == each {
			copy(to, from)
		} else if err := undo(to, from); err != nil {
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
func exactSize(undo decodeFunc) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		b, err := undo(src, len(dst))
		if err != nil {
			return err
		}
		if len(b) != len(dst) {
			return fmt.Errorf("%d bytes, not %d", len(b), len(dst))
		}
		copy(dst, b)
		return nil
	}
}

func decodeLZ4Block(dst, src []byte) error {
	n, err := lz4.UncompressBlock(src, dst)
	if err == nil && n != len(dst) {
		err = fmt.Errorf("%d bytes, not %d", n, len(dst))
	}
	return err
}

var errBloscLZ = errors.New("the stream is damaged")

// decodeBloscLZ undoes a stream of BloscLZ, which must fill dst: runs of literals, behind
// their length less one in five bits, and matches, with three bits of length, thirteen of
// distance, and more bytes of either where these are all ones.
//
// Source: c-blosc 1.21, blosclz.c (blosclz_decompress).
func decodeBloscLZ(dst, src []byte) error {
	const far = 8191 // distance beyond which 16 bits follow
	if len(src) == 0 {
		return errBloscLZ
	}
	control, in, out := int(src[0]&31), 1, 0
	for {
		if control < 32 {
			n := control + 1
			if out+n > len(dst) || in+n > len(src) {
				return errBloscLZ
			}
			copy(dst[out:], src[in:in+n])
			out, in = out+n, in+n
		} else {
			n, distance := control>>5+2, (control&31)<<8
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
			for k := range n { // a match may overlap what it makes
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
		return fmt.Errorf("%d bytes, not %d", out, len(dst))
	}
	return nil
}

// unshuffle puts the bytes of elements together that lie apart: first the first byte of
// all, then the second. Bytes that make no whole element lie at the end as they are.
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

// unshuffleBits puts the bits of elements together that lie apart: for bit b of byte k
// there are n/8 bytes at (8k+b)·n/8, of which bit i%8 of byte i/8 is element i's.
//
// Source: c-blosc 1.21, bitshuffle-generic.c.
func unshuffleBits(dst, src []byte, size int) {
	n := len(src) / size
	row := n / 8
	for k := range size {
		for g := range row {
			var x uint64 // the eight bytes with the bits of elements 8g to 8g+7
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

// transpose8x8 turns a matrix of 8×8 bits around: bit i of byte b becomes bit b of byte i.
//
// Source: Warren, Hacker's Delight, 2nd ed., 7-3.
func transpose8x8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}
