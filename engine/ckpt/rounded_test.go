package ckpt

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestRounded: rounded tensors are within half a step of their row, zeros stay zeros, others keep their
// bits, and a filter with three quarters of zeros takes less than a tenth of its float32 bytes.
func TestRounded(t *testing.T) {
	filter := make([]float32, 32*64*27)
	for i := range filter {
		if i%4 == 0 {
			filter[i] = float32(math.Sin(float64(i))) * float32(1+i/(64*27))
		}
	}
	clear(filter[:64*27]) // a row without a value
	bias := []float32{1.5, -2.25, 3e-9}
	want := []Tensor{{"filter", []int{32, 64, 3, 3, 3}, filter}, {"bias", []int{3}, bias}, {"inf", []int{2}, []float32{1, float32(math.Inf(1))}}}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := WriteRounded(path, want, func(name string) bool { return name != "bias" }); err != nil {
		t.Fatal(err)
	}
	got, _, err := ReadFile(path)
	if err != nil || len(got) != len(want) || !reflect.DeepEqual(got[1:], want[1:]) {
		t.Fatalf("read %v, %v", got, err)
	}
	x := got[0].Data.([]float32)
	for i, v := range filter {
		step := float64(1+i/(64*27)) / 127
		if d := math.Abs(float64(x[i] - v)); d > 0.51*step || v == 0 && x[i] != 0 {
			t.Fatalf("element %d is %v, want %v", i, x[i], v)
		}
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	into := make([]float32, len(filter))
	if err := f.Float32(into, "filter"); err != nil || !reflect.DeepEqual(into, x) {
		t.Errorf("the filter alone differs: %v", err)
	}
	if reads := eachReadFails(t, path, "filter", into); reads < 4 { // header, bitmap, values, scales
		t.Errorf("%d reads", reads)
	}
	if e := f.Entries(); len(e) != 3 || e[0].Name != "filter" || !reflect.DeepEqual(e[0].Shape, want[0].Shape) {
		t.Errorf("entries are %v", e)
	}
	if size, err := os.Stat(path); err != nil || size.Size() > int64(4*len(filter)/10) {
		t.Errorf("%d bytes for a filter of %d, %v", size.Size(), 4*len(filter), err)
	}
}

// Scales or values that do not belong to the bitmap are damage, not other weights.
func TestRoundedDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	for name, tensors := range map[string][]Tensor{
		"no scales":        {{"w#bitmap", []int{1}, []uint8{3}}, {"w#values", []int{2}, []uint8{1, 2}}},
		"scales of others": {{"w#bitmap", []int{1}, []uint8{3}}, {"w#values", []int{2}, []uint8{1, 2}}, {"w#scales", []int{3}, []float32{1, 1, 1}}},
		"a value too many": {{"w#bitmap", []int{1}, []uint8{3}}, {"w#values", []int{3}, []uint8{1, 2, 3}}, {"w#scales", []int{2}, []float32{1, 1}}},
	} {
		if err := WriteFile(path, tensors, map[string]string{"shape of w": "[2,2]"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadFile(path); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s: %v", name, err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Float32(make([]float32, 4), "w"); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s, alone: %v", name, err)
		}
		f.Close()
	}
}
