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

// decodeFunc undoes a codec that makes bytes of bytes; the result may lie in src. A result
// of more than limit bytes is an error before memory for it is taken.
type decodeFunc func(src []byte, limit int) ([]byte, error)

// decoder is one codec of an array, as it is undone.
type decoder struct {
	name string
	// encodedSize gives the bytes of the codec's result for so many bytes of input; nil for those
	// of which only the result can tell.
	encodedSize func(n int) int
	decode      decodeFunc
}

// codec is one kind of codec: its names in both versions and how to make a step of its
// configuration. d is the type of the elements, which filters may change.
type codec struct {
	names      []string
	newDecoder func(conf json.RawMessage, d *dtype) (decoder, error)
}

// codecs lists what can be undone, but for what makes bytes of elements.
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

// newDecoder makes the step of a codec by its name.
//
// Errors: a codec that is not in the list, as the reason why an array is not used.
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

func withoutConfig(undo decodeFunc) func(json.RawMessage, *dtype) (decoder, error) {
	return func(json.RawMessage, *dtype) (decoder, error) { return decoder{decode: undo}, nil }
}

// decodeChain undoes the steps of a chunk, which were done in their order on size bytes.
func decodeChain(steps []decoder, src []byte, size int) ([]byte, error) {
	sizes := make([]int, len(steps)+1) // before each step; -1 where it is not known
	sizes[0] = size
	for i, s := range steps {
		sizes[i+1] = -1
		if s.encodedSize != nil && sizes[i] >= 0 {
			sizes[i+1] = s.encodedSize(sizes[i])
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		limit := sizes[i]
		if limit < 0 { // what a codec makes of bytes that it cannot compress
			limit = size + size/8 + 64<<10
		}
		if sizes[i+1] >= 0 && len(src) != sizes[i+1] {
			return nil, fmt.Errorf("%d bytes, not %d, for %s", len(src), sizes[i+1], steps[i].name)
		}
		var err error
		if src, err = steps[i].decode(src, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", steps[i].name, err)
		}
	}
	if len(src) != size {
		return nil, fmt.Errorf("%d bytes, not %d", len(src), size)
	}
	return src, nil
}

// readLimited reads a decompressing reader to its end. No more memory is taken at first
// than so many bytes can hold: deflate and bzip2 make at most some thousand of one.
func readLimited(r io.Reader, n, limit int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(min(limit+1, 64*n+512))
	if _, err := io.Copy(&b, io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, err
	}
	if b.Len() > limit {
		return nil, fmt.Errorf("it becomes more than %d bytes", limit)
	}
	return b.Bytes(), nil
}

func decodeGzip(src []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readLimited(r, len(src), limit)
}

func decodeZlib(src []byte, limit int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readLimited(r, len(src), limit)
}

func decodeBzip2(src []byte, limit int) ([]byte, error) {
	return readLimited(bzip2.NewReader(bytes.NewReader(src)), len(src), limit)
}

// zstdDecoder serves all goroutines.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxMemory(maxChunk), zstd.WithDecodeAllCapLimit(true))
})

func decodeZstd(src []byte, limit int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, make([]byte, 0, limit)) // and no byte beyond that
}

// decodeLZ4 undoes a block behind the length of its result, as numcodecs writes it.
func decodeLZ4(src []byte, limit int) ([]byte, error) {
	if len(src) < 4 {
		return nil, errors.New("it has no length")
	}
	n := int64(binary.LittleEndian.Uint32(src))
	if n > int64(limit) {
		return nil, fmt.Errorf("it becomes %d bytes, more than %d", n, limit)
	}
	dst := make([]byte, n)
	return dst, decodeLZ4Block(dst, src[4:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeCRC32C verifies and takes off the checksum behind the bytes.
func decodeCRC32C(src []byte, _ int) ([]byte, error) {
	n := len(src) - 4
	if n < 0 {
		return nil, errors.New("it has no checksum")
	}
	if sum, want := crc32.Checksum(src[:n], castagnoli), binary.LittleEndian.Uint32(src[n:]); sum != want {
		return nil, fmt.Errorf("the checksum is %08x, not %08x", sum, want)
	}
	return src[:n], nil
}

func newCRC32C(json.RawMessage, *dtype) (decoder, error) {
	return decoder{encodedSize: func(n int) int { return n + 4 }, decode: decodeCRC32C}, nil
}

func sameSize(n int) int { return n }

// newIdentity is for codecs that lose digits when they write, and do nothing else.
func newIdentity(json.RawMessage, *dtype) (decoder, error) {
	return decoder{encodedSize: sameSize, decode: func(src []byte, _ int) ([]byte, error) { return src, nil }}, nil
}

// newShuffle is the filter that puts the bytes of elements apart.
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
