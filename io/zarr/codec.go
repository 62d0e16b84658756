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

// undoBytes undoes a codec that makes bytes of bytes; the result may lie in src. A result
// of more than limit bytes is an error before memory for it is taken.
type undoBytes func(src []byte, limit int) ([]byte, error)

// step is one codec of an array, as it is undone.
type step struct {
	name string
	// sized gives the bytes of the codec's result for so many bytes of input; nil for those
	// of which only the result can tell.
	sized func(n int) int
	undo  undoBytes
}

// codec is one kind of codec: its names in both versions and how to make a step of its
// configuration. d is the type of the elements, which filters may change.
type codec struct {
	names []string
	make  func(conf json.RawMessage, d *dtype) (step, error)
}

// codecs lists what can be undone, but for what makes bytes of elements.
var codecs = []codec{
	{[]string{"gzip", "numcodecs.gzip"}, plain(undoGzip)},
	{[]string{"zlib", "numcodecs.zlib"}, plain(undoZlib)},
	{[]string{"zstd", "numcodecs.zstd"}, plain(undoZstd)},
	{[]string{"blosc", "numcodecs.blosc"}, plain(undoBlosc)},
	{[]string{"lz4", "numcodecs.lz4"}, plain(undoFramedLZ4)},
	{[]string{"bz2", "numcodecs.bz2"}, plain(undoBzip2)},
	{[]string{"crc32c"}, makeCRC32C},
	{[]string{"shuffle", "numcodecs.shuffle"}, makeShuffle},
	{[]string{"delta", "numcodecs.delta"}, makeDelta},
	{[]string{"fixedscaleoffset", "numcodecs.fixedscaleoffset"}, makeFixedScaleOffset},
	{[]string{"bitround", "numcodecs.bitround", "quantize", "numcodecs.quantize"}, makeNothing},
}

// makeStep makes the step of a codec by its name.
//
// Errors: a codec that is not in the list, as the reason why an array is not used.
func makeStep(name string, conf json.RawMessage, d *dtype) (step, error) {
	for _, c := range codecs {
		for _, n := range c.names {
			if n == name {
				s, err := c.make(conf, d)
				s.name = name
				return s, err
			}
		}
	}
	return step{}, fmt.Errorf("its codec %.60q is not supported", name)
}

func plain(undo undoBytes) func(json.RawMessage, *dtype) (step, error) {
	return func(json.RawMessage, *dtype) (step, error) { return step{undo: undo}, nil }
}

// undoAll undoes the steps of a chunk, which were done in their order on size bytes.
func undoAll(steps []step, src []byte, size int) ([]byte, error) {
	sizes := make([]int, len(steps)+1) // before each step; -1 where it is not known
	sizes[0] = size
	for i, s := range steps {
		sizes[i+1] = -1
		if s.sized != nil && sizes[i] >= 0 {
			sizes[i+1] = s.sized(sizes[i])
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
		if src, err = steps[i].undo(src, limit); err != nil {
			return nil, fmt.Errorf("%s: %w", steps[i].name, err)
		}
	}
	if len(src) != size {
		return nil, fmt.Errorf("%d bytes, not %d", len(src), size)
	}
	return src, nil
}

// undoStream reads a decompressing reader to its end. No more memory is taken at first
// than so many bytes can hold: deflate and bzip2 make at most some thousand of one.
func undoStream(r io.Reader, n, limit int) ([]byte, error) {
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

func undoGzip(src []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return undoStream(r, len(src), limit)
}

func undoZlib(src []byte, limit int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return undoStream(r, len(src), limit)
}

func undoBzip2(src []byte, limit int) ([]byte, error) {
	return undoStream(bzip2.NewReader(bytes.NewReader(src)), len(src), limit)
}

// zstdDecoder serves all goroutines.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxMemory(maxChunk), zstd.WithDecodeAllCapLimit(true))
})

func undoZstd(src []byte, limit int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, make([]byte, 0, limit)) // and no byte beyond that
}

// undoFramedLZ4 undoes a block behind the length of its result, as numcodecs writes it.
func undoFramedLZ4(src []byte, limit int) ([]byte, error) {
	if len(src) < 4 {
		return nil, errors.New("it has no length")
	}
	n := int64(binary.LittleEndian.Uint32(src))
	if n > int64(limit) {
		return nil, fmt.Errorf("it becomes %d bytes, more than %d", n, limit)
	}
	dst := make([]byte, n)
	return dst, undoLZ4(dst, src[4:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// undoCRC32C verifies and takes off the checksum behind the bytes.
func undoCRC32C(src []byte, _ int) ([]byte, error) {
	n := len(src) - 4
	if n < 0 {
		return nil, errors.New("it has no checksum")
	}
	if sum, want := crc32.Checksum(src[:n], castagnoli), binary.LittleEndian.Uint32(src[n:]); sum != want {
		return nil, fmt.Errorf("the checksum is %08x, not %08x", sum, want)
	}
	return src[:n], nil
}

func makeCRC32C(json.RawMessage, *dtype) (step, error) {
	return step{sized: func(n int) int { return n + 4 }, undo: undoCRC32C}, nil
}

func same(n int) int { return n }

// makeNothing is for codecs that lose digits when they write, and do nothing else.
func makeNothing(json.RawMessage, *dtype) (step, error) {
	return step{sized: same, undo: func(src []byte, _ int) ([]byte, error) { return src, nil }}, nil
}

// makeShuffle is the filter that puts the bytes of elements apart.
func makeShuffle(conf json.RawMessage, _ *dtype) (step, error) {
	var c struct {
		Size int `json:"elementsize"`
	}
	if err := json.Unmarshal(conf, &c); err != nil || c.Size < 1 || c.Size > 255 {
		return step{}, fmt.Errorf("its filter %.60s is not understood", conf)
	}
	return step{sized: same, undo: func(src []byte, _ int) ([]byte, error) {
		dst := make([]byte, len(src))
		unshuffle(dst, src, c.Size)
		return dst, nil
	}}, nil
}
