package zarr

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// decodeFunc decodes bytes to bytes. The result may share memory with src. A result
// of more than limit bytes is an error before its memory is allocated.
type decodeFunc func(src []byte, limit int) ([]byte, error)

// decoder decodes one codec of an array.
type decoder struct {
	name string
	// encodedSize returns the size of encoded data for a size of decoded data. It
	// is nil for compressors, whose size depends on the data.
	encodedSize func(n int) int
	decode      decodeFunc
}

// codec is one kind of codec: its names in both versions, and a constructor of
// decoders. d is the type of the elements, which filters change.
type codec struct {
	names      []string
	newDecoder func(conf json.RawMessage, d *dtype) (decoder, error)
}

// codecs lists the supported codecs, except those that convert elements to bytes.
var codecs = []codec{
	{[]string{"gzip", "numcodecs.gzip"}, withoutConfig(decodeGzip)},
	{[]string{"zlib", "numcodecs.zlib"}, withoutConfig(decodeZlib)},
	{[]string{"zstd", "numcodecs.zstd"}, withoutConfig(decodeZstd)},
	{[]string{"blosc", "numcodecs.blosc"}, withoutConfig(decodeBlosc)},
	{[]string{"lz4", "numcodecs.lz4"}, withoutConfig(decodeLZ4)},
	{[]string{"bz2", "numcodecs.bz2"}, withoutConfig(decodeBzip2)},
	{[]string{"crc32c"}, newCRC32C},
	{[]string{"shuffle", "numcodecs.shuffle"}, newShuffle},
	{[]string{"delta", "numcodecs.delta"}, newDelta},
	{[]string{"fixedscaleoffset", "numcodecs.fixedscaleoffset"}, newFixedScaleOffset},
	{[]string{"bitround", "numcodecs.bitround", "quantize", "numcodecs.quantize"}, newIdentity},
}

// newDecoder makes the decoder of a codec by name.
//
// Errors: an unknown codec, as the reason why the array is not used.
func newDecoder(name string, conf json.RawMessage, d *dtype) (decoder, error) {
	for _, c := range codecs {
		for _, n := range c.names {
			if n == name {
				s, err := c.newDecoder(conf, d)
				s.name = name
				return s, err
			}
		}
	}
	return decoder{}, fmt.Errorf("its codec %.60q is not supported", name)
}

// withoutConfig adapts a decoder that ignores the configuration.
func withoutConfig(decode decodeFunc) func(json.RawMessage, *dtype) (decoder, error) {
	return func(json.RawMessage, *dtype) (decoder, error) { return decoder{decode: decode}, nil }
}

// decodeChain decodes a chunk.
//
// chain is in the order of encoding; size is the number of decoded bytes. The
// limit of each codec follows from the metadata: the exact size where it is known,
// otherwise an upper bound for data that a compressor cannot compress.
//
// Errors: those of the codecs with their names; a result of another size.
func decodeChain(chain []decoder, src []byte, size int) ([]byte, error) {
	sizes := make([]int, len(chain)+1) // size before each codec; -1 if unknown
	// Sizes before each codec follow from the decoded size, up to the first
	// compressor.
	sizes[0] = size
	for i, s := range chain {
		sizes[i+1] = -1
		if s.encodedSize != nil && sizes[i] >= 0 {
			sizes[i+1] = s.encodedSize(sizes[i])
		}
	}
	// Codecs are decoded in reverse order.
	for i := len(chain) - 1; i >= 0; i-- {
		limit := sizes[i]
		if limit < 0 { // upper bound for data that a compressor cannot compress
			limit = size + size/8 + 64<<10
		}
		if sizes[i+1] >= 0 && len(src) != sizes[i+1] {
			return nil, fmt.Errorf("%s: got %d bytes, want %d", chain[i].name, len(src), sizes[i+1])
		}
		var err error
		if src, err = chain[i].decode(src, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", chain[i].name, err)
		}
	}
	if len(src) != size {
		return nil, fmt.Errorf("got %d bytes, want %d", len(src), size)
	}
	return src, nil
}

// readLimited reads a decompressor to its end. The first allocation is bounded by
// n, the size of the compressed data: deflate and bzip2 reach compression ratios of
// about a thousand.
func readLimited(r io.Reader, n, limit int) ([]byte, error) {
	var b bytes.Buffer
	// One byte more than limit distinguishes a result of limit bytes from a longer
	// one.
	b.Grow(min(limit+1, 64*n+512))
	if _, err := io.Copy(&b, io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, err
	}
	if b.Len() > limit {
		return nil, fmt.Errorf("it expands to more than %d bytes", limit)
	}
	return b.Bytes(), nil
}

// decodeGzip decodes gzip (RFC 1952).
func decodeGzip(src []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readLimited(r, len(src), limit)
}

// decodeZlib decodes zlib (RFC 1950).
func decodeZlib(src []byte, limit int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readLimited(r, len(src), limit)
}

// decodeBzip2 decodes bzip2.
func decodeBzip2(src []byte, limit int) ([]byte, error) {
	return readLimited(bzip2.NewReader(bytes.NewReader(src)), len(src), limit)
}

// zstdDecoder is shared by all goroutines.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxMemory(maxChunk), zstd.WithDecodeAllCapLimit(true))
})

// decodeZstd decodes Zstandard (RFC 8878).
func decodeZstd(src []byte, limit int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, make([]byte, 0, limit)) // the capacity limits the result
}

// decodeLZ4 decodes an LZ4 block after its decoded length (uint32, little-endian),
// the format of numcodecs.
func decodeLZ4(src []byte, limit int) ([]byte, error) {
	if len(src) < 4 {
		return nil, errors.New("the length is missing")
	}
	n := int64(binary.LittleEndian.Uint32(src))
	if n > int64(limit) {
		return nil, fmt.Errorf("it expands to %d bytes, more than %d", n, limit)
	}
	dst := make([]byte, n)
	return dst, decodeLZ4Block(dst, src[4:])
}

// castagnoli is the table of CRC-32C, polynomial 0x1EDC6F41.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeCRC32C verifies and removes the CRC-32C (Castagnoli) after the data.
//
// Source: Zarr CRC32C codec 1.0.
func decodeCRC32C(src []byte, _ int) ([]byte, error) {
	n := len(src) - 4
	if n < 0 {
		return nil, errors.New("the checksum is missing")
	}
	if sum, want := crc32.Checksum(src[:n], castagnoli), binary.LittleEndian.Uint32(src[n:]); sum != want {
		return nil, fmt.Errorf("checksum %08x, want %08x", sum, want)
	}
	return src[:n], nil
}

// newCRC32C makes the decoder of checksums.
func newCRC32C(json.RawMessage, *dtype) (decoder, error) {
	return decoder{encodedSize: func(n int) int { return n + 4 }, decode: decodeCRC32C}, nil
}

// sameSize is the encodedSize of codecs that keep the size.
func sameSize(n int) int { return n }

// newIdentity makes the decoder of codecs that only discard digits when they encode
// (bitround, quantize).
func newIdentity(json.RawMessage, *dtype) (decoder, error) {
	return decoder{encodedSize: sameSize, decode: func(src []byte, _ int) ([]byte, error) { return src, nil }}, nil
}

// newShuffle makes the decoder of the shuffle filter.
func newShuffle(conf json.RawMessage, _ *dtype) (decoder, error) {
	var c struct {
		Size int `json:"elementsize"`
	}
	if err := json.Unmarshal(conf, &c); err != nil || c.Size < 1 || c.Size > 255 {
		return decoder{}, fmt.Errorf("its filter %.60s is not understood", conf)
	}
	return decoder{encodedSize: sameSize, decode: func(src []byte, _ int) ([]byte, error) {
		dst := make([]byte, len(src))
		unshuffle(dst, src, c.Size)
		return dst, nil
	}}, nil
}
