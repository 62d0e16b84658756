package op

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestCombineByHand compares two layers of one store of two templates with
// values computed by hand: the weights, the gradients of the templates, summed
// over the layers, and those of the coefficients.
func TestCombineByHand(t *testing.T) {
	store := []float64{1, 2, 3, -1}
	a := Templates{To: graph.Shape{2, 1}, Offsets: []int{0, 2}}
	layers := []struct{ coefficients, w, dw, want []float64 }{
		{[]float64{0.5, 0.5}, []float64{2, 0.5}, []float64{1, 0}, []float64{1, 3}},
		{[]float64{1, -1}, []float64{-2, 3}, []float64{0, 2}, []float64{4, -2}},
	}
	sum := make([]float64, len(store))
	for i, l := range layers {
		w, c, s := make([]float64, 2), make([]float64, 2), make([]float64, 4)
		CombineTemplates(a, w, store, l.coefficients)
		CombineTemplatesGradCoefficients(a, c, store, l.dw)
		CombineTemplatesGradStore(a, s, l.coefficients, l.dw)
		if !slices.Equal(w, l.w) || !slices.Equal(c, l.want) {
			t.Errorf("layer %d: weights %v, want %v; gradient of coefficients %v, want %v", i, w, l.w, c, l.want)
		}
		for j, v := range s {
			sum[j] += v
		}
	}
	if want := []float64{0.5, 2, 0.5, -2}; !slices.Equal(sum, want) {
		t.Errorf("gradient of templates %v, want %v", sum, want)
	}
}

// TestTemplatesInterpolation compares the interpolation of templates with
// PyTorch's resizing of images (testdata/resize.py).
func TestTemplatesInterpolation(t *testing.T) {
	text, err := os.ReadFile("testdata/resize.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		From, To [2]int
		X, Y     []float64
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		a := Templates{To: graph.Shape{c.To[0], c.To[1]}, Offsets: []int{0}, Rows: c.From[0], Columns: c.From[1]}
		y := make([]float64, len(c.Y))
		CombineTemplates(a, y, c.X, []float64{1})
		for i, v := range c.Y {
			if d := y[i] - v; d > 1e-12 || d < -1e-12 {
				t.Errorf("%v to %v: value %d is %v, want %v", c.From, c.To, i, y[i], v)
				break
			}
		}
	}
}

// TestTemplatesVariance verifies that Variance is the mean over the
// weights of the sum of squared interpolation weights.
func TestTemplatesVariance(t *testing.T) {
	a := Templates{To: graph.Shape{7, 11}, Offsets: []int{0}, Rows: 3, Columns: 5}
	counts := map[[2]int]float64{}
	a.each(func(from, to int, factor float64) { counts[[2]int{from, to}] += factor })
	var sum float64
	for _, f := range counts {
		sum += f * f
	}
	if want := sum / 77; a.Variance() < want-1e-12 || a.Variance() > want+1e-12 {
		t.Errorf("variance %v, want %v", a.Variance(), want)
	}
}

func TestTemplatesThatAreNotInTheirStore(t *testing.T) {
	for name, a := range map[string]Templates{
		"beyond the end":   {To: graph.Shape{2, 3}, Offsets: []int{0, 5}},
		"before the start": {To: graph.Shape{2, 3}, Offsets: []int{-1}},
		"none":             {To: graph.Shape{2, 3}},
		"larger":           {To: graph.Shape{2, 3}, Offsets: []int{0}, Rows: 3, Columns: 2},
		"a row":            {To: graph.Shape{2, 3}, Offsets: []int{0}, Rows: 1},
	} {
		b := graph.New(0)
		Combine(b, b.Input("store", graph.Shape{1, 10}), b.Input("coefficients", graph.Shape{max(1, len(a.Offsets))}), a)
		if b.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
