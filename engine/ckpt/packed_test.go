package ckpt

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// TestPacked: packed tensors are restored bit for bit, all at once or one by one. Tensors that
// packing does not shrink are stored unpacked, and the file has the size of bitmaps and values.
func TestPacked(t *testing.T) {
	sparse := make([]float32, 3*5*7)
	for i := 0; i < len(sparse); i += 9 {
		sparse[i] = float32(i) - 20
	}
	sparse[4], sparse[len(sparse)-1] = float32(math.Copysign(0, -1)), float32(math.NaN())
	want := []Tensor{
		{"dense", []int{2, 2}, []float32{1, 2, 3, 4}},
		{"sparse", []int{3, 5, 7}, sparse},
		{"empty", []int{0}, []float32{}},
		{"zero", []int{64}, make([]float32, 64)},
		{"counts", []int{3}, []int32{0, 0, 0}},
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WritePacked(path, want); err != nil {
		t.Fatal(err)
	}
	got, _, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d tensors, want %d", len(got), len(want))
	}
	bitsOf := func(x any) any {
		v, ok := x.([]float32)
		if !ok {
			return x
		}
		out := make([]uint32, len(v))
		for i := range v {
			out[i] = math.Float32bits(v[i])
		}
		return out
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, w := range want {
		if got[i].Name != w.Name || !reflect.DeepEqual(got[i].Shape, w.Shape) || !reflect.DeepEqual(bitsOf(got[i].Data), bitsOf(w.Data)) {
			t.Errorf("read %v, want %v", got[i], w)
		}
		e, ok := f.Find(w.Name)
		if !ok || !reflect.DeepEqual(e.Shape, w.Shape) {
			t.Errorf("%s is found as %v", w.Name, e)
		}
		x, ok := w.Data.([]float32)
		if !ok {
			continue
		}
		into := make([]float32, len(x))
		if err := f.Float32(into, w.Name); err != nil || !reflect.DeepEqual(bitsOf(into), bitsOf(x)) {
			t.Errorf("%s alone is %v (%v)", w.Name, into, err)
		}
	}
	for i, e := range f.Entries() {
		if e.Name != want[i].Name || !reflect.DeepEqual(e.Shape, want[i].Shape) {
			t.Errorf("entry %d is %s %v, want %s", i, e.Name, e.Shape, want[i].Name)
		}
	}
	if n := len(f.Entries()); n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	var stored int64
	for _, e := range f.header.Entries {
		stored += e.end - e.begin
	}
	if want := int64(16 + 14 + 4*14 + 8 + 12); stored != want {
		t.Errorf("the tensors take %d bytes, want %d", stored, want)
	}
	if e, ok := f.Find("none"); ok {
		t.Errorf("there is %v", e)
	}
	plain, packed := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if err := WriteFile(plain, want[:1], nil); err != nil {
		t.Fatal(err)
	}
	if err := WritePacked(packed, want[:1]); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(plain)
	if b, _ := os.ReadFile(packed); string(a) != string(b) {
		t.Error("a file without zeros is another one")
	}
}

// eachReadFails reads a tensor once for each of its reads, which fails, and once without a fault. It returns the number of reads.
func eachReadFails(t *testing.T, path, name string, into []float32) (reads int) {
	t.Helper()
	for round := range faultfs.Rounds(faultfs.Fault{Of: []faultfs.Kind{faultfs.Read}, Err: unix.EIO}, 1) {
		hit, err := round.Run(t, func() error {
			f, err := Open(path)
			if err != nil {
				return err
			}
			return errors.Join(f.Float32(into, name), f.Close())
		})
		if hit != nil {
			reads++
		}
		if (hit != nil) != errors.Is(err, unix.EIO) || hit == nil && err != nil {
			t.Errorf("read %d, fails %v: %v", reads, hit != nil, err)
		}
	}
	return reads
}

// TestPackedReadErrors: a bitmap or values that the disk does not give are an error, and the file can be read afterwards.
func TestPackedReadErrors(t *testing.T) {
	path, into := filepath.Join(t.TempDir(), "w.safetensors"), make([]float32, 4)
	if err := WriteFile(path, []Tensor{{"w#bitmap", []int{1}, []uint8{5}}, {"w#values", []int{2}, []float32{1, 2}}}, map[string]string{"shape of w": "[4]"}); err != nil {
		t.Fatal(err)
	}
	if reads := eachReadFails(t, path, "w", into); reads < 3 || !reflect.DeepEqual(into, []float32{1, 0, 2, 0}) { // header, bitmap, values
		t.Errorf("%d reads, %v", reads, into)
	}
}

// TestPackedDamaged: bitmaps and values that do not match are refused, with the name of the tensor.
func TestPackedDamaged(t *testing.T) {
	bitmap, values := Tensor{"w#bitmap", []int{1}, []uint8{5}}, Tensor{"w#values", []int{2}, []float32{1, 2}}
	shape := map[string]string{"shape of w": "[4]"}
	for name, c := range map[string]struct {
		tensors  []Tensor
		metadata map[string]string
		why      string
	}{
		"a value too few":      {[]Tensor{bitmap, {"w#values", []int{1}, []float32{1}}}, shape, "2 bits set"},
		"a bit beyond the end": {[]Tensor{{"w#bitmap", []int{1}, []uint8{17}}, values}, shape, "2 bits set"},
		"another shape":        {[]Tensor{bitmap, values}, map[string]string{"shape of w": "[2, 8]"}, "bitmap of 1 bytes"},
		"a huge shape":         {[]Tensor{bitmap, values}, map[string]string{"shape of w": "[1000000, 1000000, 1000000, 1000000]"}, "too many elements"},
		"no shape":             {[]Tensor{bitmap, values}, map[string]string{"shape of w": "four"}, "without the shape"},
		"no values":            {[]Tensor{bitmap}, shape, "without w#values"},
		"values of another":    {[]Tensor{bitmap, {"w#values", []int{2}, []int32{1, 2}}}, shape, "not of type F32"},
		"a bitmap of another":  {[]Tensor{{"w#bitmap", []int{1}, []float32{5}}, values}, shape, "bitmap of 0 bytes"},
	} {
		path := filepath.Join(t.TempDir(), "w.safetensors")
		if err := WriteFile(path, c.tensors, c.metadata); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadFile(path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "tensor w") || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, found := f.Find("w"); found {
			if err := f.Float32(make([]float32, 4), "w"); err == nil {
				t.Errorf("%s: the tensor is read alone", name)
			}
		}
		f.Close()
	}
	// Without a shape they are tensors like others.
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WriteFile(path, []Tensor{bitmap, values}, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := ReadFile(path); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
