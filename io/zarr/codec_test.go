package zarr

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// zeros holds a million zeros, compressed.
var zeros = func() map[string][]byte {
	plain := make([]byte, 1_000_000)
	var g, z bytes.Buffer
	gw, zw := gzip.NewWriter(&g), zlib.NewWriter(&z)
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{gw, zw} {
		if _, err := w.Write(plain); err != nil {
			panic(err)
		}
		if err := w.Close(); err != nil {
			panic(err)
		}
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return map[string][]byte{"gzip": g.Bytes(), "zlib": z.Bytes(), "zstd": e.EncodeAll(plain, nil)}
}()

// Bits that are shuffled by the definition are restored.
func TestUnshuffle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 2, 4, 8, 3} {
		n := 24
		plain := make([]byte, n*size+size/2)
		for i := range plain {
			plain[i] = byte(r.Uint32())
		}
		apart, bits := bytes.Clone(plain), bytes.Clone(plain)
		clear(bits[:n*size])
		for i := range n {
			for k := range size {
				apart[k*n+i] = plain[i*size+k]
				for b := range 8 {
					bits[(8*k+b)*n/8+i/8] |= plain[i*size+k] >> b & 1 << (i % 8)
				}
			}
		}
		got := make([]byte, len(plain))
		if unshuffle(got, apart, size); !bytes.Equal(got, plain) {
			t.Errorf("bytes of elements of %d are not put together", size)
		}
		clear(got)
		if unshuffleBits(got, bits, size); !bytes.Equal(got, plain) {
			t.Errorf("bits of elements of %d are not put together", size)
		}
	}
}

func TestFillValues(t *testing.T) {
	for _, c := range []struct {
		dtype, text string
		want        float64
		ok, bad     bool
	}{
		{"<f4", `null`, 0, false, false}, {"<f4", ``, 0, false, false}, {"<f4", `0.1`, float64(float32(0.1)), true, false}, {"<f4", `"0x7f800000"`, math.Inf(1), true, false},
		{"<f8", `"-Infinity"`, math.Inf(-1), true, false}, {"<i2", `-32767`, -32767, true, false}, {"|b1", `true`, 1, true, false}, {"<f4", `"x"`, 0, false, true},
		{"<f4", `[1, 2]`, 0, false, true}, {"<i2", `"0xffff0"`, 0, false, true}, {"<f2", `0.1`, 0.0999755859375, true, false},
	} {
		d, err := parseDtype(c.dtype)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := d.parseFill([]byte(c.text))
		if got != c.want || ok != c.ok || (err != nil) != c.bad {
			t.Errorf("%s of %s: %v, %v, %v", c.text, c.dtype, got, ok, err)
		}
	}
}

// FuzzBlosc: any bytes are decoded or rejected, and the result never exceeds the
// limit.
func FuzzBlosc(f *testing.F) {
	header := func(flags, size byte, n, block uint32, rest []byte) []byte {
		b := binary.LittleEndian.AppendUint32([]byte{2, 1, flags, size}, n)
		b = binary.LittleEndian.AppendUint32(b, block)
		b = binary.LittleEndian.AppendUint32(b, uint32(16+len(rest)))
		return append(b, rest...)
	}
	f.Add(header(0x02, 4, 8, 8, make([]byte, 8)))
	f.Add(header(0x10, 4, 8, 8, []byte{20, 0, 0, 0, 3, 0, 0, 0, 0, 'x', 0x25, 0}))
	f.Add(header(0x31, 4, 8, 8, []byte{20, 0, 0, 0, 9, 0, 0, 0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8}))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := decodeBlosc(b, 1<<16)
		if err == nil && len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}

// FuzzShardIndex: any bytes are an index with chunks inside the shard, or an error.
func FuzzShardIndex(f *testing.F) {
	f.Add(make([]byte, 64), int64(100))
	f.Add(bytes.Repeat([]byte{0xff}, 64), int64(64))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		for _, summed := range []bool{false, true} {
			s := &sharding{count: int64(len(b) / 16), checksummed: summed}
			if int64(len(b)) < s.indexSize() || size < 0 {
				continue
			}
			index, err := s.parse(b[:s.indexSize()], size)
			for _, c := range index {
				if err == nil && c[1] >= 0 && (c[0] < 0 || c[0]+c[1] > size) {
					t.Errorf("chunk %v of %d bytes", c, size)
				}
			}
		}
	})
}

// FuzzMetadata: any documents are an array, a reason or an error.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "compressor": {"id": "blosc"}, "fill_value": "NaN", "order": "F", "filters": [{"id": "delta", "dtype": "<f4"}]}`),
		[]byte(`{"_ARRAY_DIMENSIONS": ["y", "x"], "scale_factor": 2, "_FillValue": "AAAAAAAA+H8="}`))
	f.Add([]byte(`{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
 "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}`), []byte("{}"))
	f.Fuzz(func(t *testing.T, text, attrs []byte) {
		for _, parse := range []func() (*Array, error){func() (*Array, error) { return parseArray2("t", text, attrs) }, func() (*Array, error) { return parseArray3("t", text) }} {
			a, err := parse()
			if err != nil {
				if len(err.Error()) > 10_000+len(text)+len(attrs) {
					t.Error("an endless message")
				}
				continue
			}
			if n := a.chunkSize() * int64(a.dtype.size); n < 1 || n > maxChunk {
				t.Errorf("a chunk of %d bytes", n)
			}
			a.cfVariable()
			a.strides()
		}
	})
}
