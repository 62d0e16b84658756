package ckpt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestFile: tensors that are read one by one equal those of ReadFile.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	want := []Tensor{{Name: "a", Shape: []int{3}, Data: []float64{1, 2.5, -3}}, {Name: "b", Shape: []int{2, 1}, Data: []float32{4, 5}}}
	if err := WriteFile(path, want, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := f.Float64(make([]float64, 1), "a")
	if err != nil || !slices.Equal(x, want[0].Data.([]float64)) {
		t.Errorf("a is %v, %v", x, err)
	}
	if e, ok := f.Find("b"); !ok || !slices.Equal(e.Shape, want[1].Shape) {
		t.Errorf("b has shape %v", e.Shape)
	}
	if b, err := f.Tensor("b"); err != nil || !slices.Equal(b.Data.([]float32), want[1].Data.([]float32)) {
		t.Errorf("b is %v, %v", b, err)
	}
	y, z := make([]float32, 2), make([]float32, 3)
	if err := f.Float32(y, "b"); err != nil || !slices.Equal(y, want[1].Data.([]float32)) {
		t.Errorf("b is %v, %v", y, err)
	}
	if err := f.Float32(z, "a"); err != nil || !slices.Equal(z, []float32{1, 2.5, -3}) {
		t.Errorf("a is %v as float32, %v", z, err)
	}
	if f.Float32(z, "b") == nil {
		t.Error("two values are read as three")
	}
	if _, err := f.Float64(nil, "b"); err == nil {
		t.Error("float32 is read as float64")
	}
	if _, err := f.Tensor("c"); err == nil {
		t.Error("a tensor that is absent is read")
	}
	if err := f.Float32(y, "c"); err == nil || !strings.Contains(err.Error(), "no tensor c") {
		t.Errorf("a tensor that is absent: %v", err)
	}
	if n := testing.AllocsPerRun(5, func() {
		if err := f.Float32(y, "b"); err != nil {
			t.Error(err)
		}
	}); n > 1 {
		t.Errorf("%g allocations for a tensor that is read in place", n)
	}
}

// TestEntries: a packed tensor is listed as the unpacked one, in its place; one whose shape is damaged is left out. Parts of others by name
// alone are tensors of their own.
func TestEntries(t *testing.T) {
	u8 := func(name string, n int) Tensor { return Tensor{name, []int{n}, make([]uint8, n)} }
	f32 := func(name string, n int) Tensor { return Tensor{name, []int{n}, make([]float32, n)} }
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := WriteFile(path, []Tensor{f32("first", 1), u8("a#bitmap", 1), f32("a#values", 0), u8("b#bitmap", 1), f32("b#values", 0), f32("c#values", 2), u8("d#bitmap", 1), u8("d#values", 0), f32("d#scales", 2), u8("e#bitmap", 1), f32("last", 1)},
		map[string]string{shapeMetadata + "a": "[2,3]", shapeMetadata + "b": "[99]", shapeMetadata + "d": "[2]"}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for _, e := range f.Entries() {
		got = append(got, fmt.Sprint(e.Name, e.DType, e.Shape))
	}
	if want := []string{"firstF32[1]", "aF32[2 3]", "c#valuesF32[2]", "dF32[2]", "e#bitmapU8[1]", "lastF32[1]"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if e, ok := f.Find("b"); ok {
		t.Errorf("a damaged tensor is found: %+v", e)
	}
	if _, _, err := ReadFile(path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "tensor b") {
		t.Errorf("a damaged tensor is read: %v", err)
	}
}
