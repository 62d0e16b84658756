package task

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// TestEdges: edges of histograms are quantiles of the counted values, in any order.
func TestEdges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	counts := make([]float64, cellCount)
	for range 200000 {
		counts[cellOf(float32(r.NormFloat64()))]++
	}
	edges, err := quantileEdges(counts, 10)
	if err != nil || len(edges) != 11 || !slices.IsSorted(edges) {
		t.Fatalf("%v, %v", edges, err)
	}
	for i, e := range edges[1:10] {
		want := dist.NormalQuantile(float64(i+1) / 10)
		if math.Abs(e-want) > 0.02 { // a cell of 1/128 and the draws
			t.Errorf("edge %d is %g, want %g", i+1, e, want)
		}
	}
	if edges[0] > -3.5 || edges[10] < 3.5 {
		t.Errorf("ends %g and %g do not hold all draws", edges[0], edges[10])
	}
	one := make([]float64, cellCount)
	one[cellOf(1)] = 7
	if _, err := quantileEdges(one, 2); err == nil {
		t.Error("one value makes two bins")
	}
	one[cellOf(-1)], one[cellOf(0)] = 1000, 5 // nearly all is in one cell
	edges, err = quantileEdges(one, 4)
	if err != nil || len(edges) != 5 || slices.ContainsFunc([]int{1, 2, 3, 4}, func(i int) bool { return edges[i] <= edges[i-1] }) {
		t.Errorf("%v, %v", edges, err)
	}
}
