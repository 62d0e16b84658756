package ckpt

import (
	"path/filepath"
	"slices"
	"testing"
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
}
