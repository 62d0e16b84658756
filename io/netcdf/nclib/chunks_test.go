package nclib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/fhs/go-netcdf/netcdf"

	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// write creates a file with one variable of 3×17×23 points in chunks of 2×5×7, of
// which the first two planes are written. Numbers are small, so that every type can
// hold them.
func write(t *testing.T, path string, kind netcdf.Type, shuffle bool, attributes func(v netcdf.Var) error) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ds, err := netcdf.CreateFile(path, netcdf.CLOBBER|netcdf.NETCDF4)
	check(err)
	var dims []netcdf.Dim
	for i, n := range []uint64{3, 17, 23} {
		d, err := ds.AddDim(fmt.Sprint("d", i), n)
		check(err)
		dims = append(dims, d)
	}
	v, err := ds.AddVar("x", kind, dims)
	check(err)
	check(setChunks(ds, encode.Variable{Name: "x", Chunks: []int{2, 5, 7}}))
	check(v.SetCompression(shuffle, true, 1))
	if attributes != nil {
		check(attributes(v))
	}
	check(ds.EndDef())
	const n = 2 * 17 * 23
	rng := rand.New(rand.NewPCG(2, 3))
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(rng.IntN(120))
	}
	start, count := []uint64{0, 0, 0}, []uint64{2, 17, 23}
	switch kind {
	case netcdf.BYTE:
		err = v.WriteInt8Slice(convert[int8](x), start, count)
	case netcdf.SHORT:
		err = v.WriteInt16Slice(convert[int16](x), start, count)
	case netcdf.INT:
		err = v.WriteInt32Slice(convert[int32](x), start, count)
	case netcdf.INT64:
		err = v.WriteInt64Slice(convert[int64](x), start, count)
	case netcdf.UBYTE:
		err = v.WriteUint8Slice(convert[uint8](x), start, count)
	case netcdf.USHORT:
		err = v.WriteUint16Slice(convert[uint16](x), start, count)
	case netcdf.UINT:
		err = v.WriteUint32Slice(convert[uint32](x), start, count)
	case netcdf.FLOAT:
		err = v.WriteFloat32Slice(convert[float32](x), start, count)
	case netcdf.DOUBLE:
		err = v.WriteFloat64Slice(x, start, count)
	}
	check(err)
	check(ds.Close())
}

// convert returns numbers of another type, including negative ones and fractions if
// the type has them.
func convert[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | float32](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v) / 3
		if i%5 == 0 {
			out[i] = -out[i]
		}
	}
	return out
}

// Float returns the values of Double for complete variables and slabs across
// chunks, with and without cached chunks, for all rules of missing and packed
// values. Chunks that are not inflated here are read by the library.
func TestFloatAgreesWithDouble(t *testing.T) {
	runtime.LockOSThread() // HDF5 disables its error messages per thread
	defer runtime.UnlockOSThread()
	packed := func(v netcdf.Var) error {
		for name, x := range map[string]float64{"scale_factor": 0.01, "add_offset": 273.15, "missing_value": 7} {
			if err := v.Attr(name).WriteFloat64s([]float64{x}); err != nil {
				return err
			}
		}
		return v.Attr("valid_range").WriteFloat64s([]float64{272.95, 273.45}) // of values
	}
	unsigned := func(v netcdf.Var) error { return v.Attr("_Unsigned").WriteBytes([]byte("true")) }
	unsignedRange := func(v netcdf.Var) error {
		if err := unsigned(v); err != nil {
			return err
		}
		return v.Attr("valid_range").WriteInt16s([]int16{5, -20})
	}
	for _, c := range []struct {
		name       string
		kind       netcdf.Type
		shuffle    bool
		attributes func(v netcdf.Var) error
		inflated   bool
	}{
		{"float", netcdf.FLOAT, true, nil, true},
		{"float, not shuffled", netcdf.FLOAT, false, packed, true},
		{"double", netcdf.DOUBLE, true, packed, true},
		{"short, packed", netcdf.SHORT, true, packed, true},
		{"short that is unsigned", netcdf.SHORT, true, unsigned, true},
		{"short that is unsigned, with a range", netcdf.SHORT, true, unsignedRange, true},
		{"ushort", netcdf.USHORT, true, packed, true},
		{"byte", netcdf.BYTE, true, unsigned, true},
		{"ubyte", netcdf.UBYTE, false, packed, true},
		{"int", netcdf.INT, true, packed, true},
		{"uint", netcdf.UINT, true, nil, true},
		{"int64", netcdf.INT64, true, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.nc")
			write(t, path, c.kind, c.shuffle, c.attributes)
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			x := slices.IndexFunc(f.header.Vars, func(v cf.Var) bool { return v.Name == "x" })
			if got := f.chunks.open(path, x, &f.header.Vars[x]) != nil; got != c.inflated {
				t.Errorf("inflated here: %v, want %v", got, c.inflated)
			}
			for _, s := range []cf.Slab{
				{Var: x, Start: []int64{0, 0, 0}, Count: []int64{2, 17, 23}},
				{Var: x, Start: []int64{1, 3, 8}, Count: []int64{1, 9, 11}},
				{Var: x, Start: []int64{1, 0, 0}, Count: []int64{1, 17, 23}},
				{Var: x, Start: []int64{0, 16, 22}, Count: []int64{1, 1, 1}},
				{Var: x, Start: []int64{0, 0, 0}, Count: []int64{3, 17, 23}}, // the last plane was never written
			} {
				compare(t, f, s)
			}
		})
	}
}

func compare(t *testing.T, f *File, s cf.Slab) {
	t.Helper()
	got, want := make([]float32, s.Size()), make([]float64, s.Size())
	if err := f.Float(got, s); err != nil {
		t.Fatalf("part %v %v: %v", s.Start, s.Count, err)
	}
	if err := f.Double(want, s); err != nil {
		t.Fatalf("part %v %v: %v", s.Start, s.Count, err)
	}
	for i, x := range want {
		if w := float32(x); math.Float32bits(got[i]) != math.Float32bits(w) && !(w != w && got[i] != got[i]) {
			t.Fatalf("part %v %v: value %d is %v, want %v", s.Start, s.Count, i, got[i], w)
		}
	}
}
