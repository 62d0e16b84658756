package network

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// A window that crosses the seam goes on in the first column; a rotation brings it to the first point, and back.
func TestWindow(t *testing.T) {
	const fields, ny, nx = 2, 4, 6
	x := make([]float32, fields*ny*nx)
	for i := range x {
		x[i] = float32(i)
	}
	w := Window{Size: config.FieldSize{Rows: 2, Columns: 4}, Row: 2, Column: 4, NY: ny, NX: nx}
	got := make([]float32, fields*2*4)
	w.Copy(got, x)
	want := []float32{16, 17, 12, 13, 22, 23, 18, 19, 40, 41, 36, 37, 46, 47, 42, 43}
	if !slices.Equal(got, want) {
		t.Errorf("window %v, want %v", got, want)
	}
	moved, scratch := slices.Clone(x), make([]float32, ny*nx)
	w.Rotate(moved, scratch, false)
	first := Window{Size: w.Size, NY: ny, NX: nx}
	if first.Copy(got, moved); !slices.Equal(got, want) {
		t.Errorf("first window of moved fields %v, want %v", got, want)
	}
	if w.Rotate(moved, scratch, true); !slices.Equal(moved, x) {
		t.Errorf("moved back: %v", moved)
	}
}
