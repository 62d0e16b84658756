package obs

import (
	"slices"
	"testing"
)

// TestAllocate divides budgets among three layers, one with a larger block. The comments are costs for each weight.
func TestAllocate(t *testing.T) {
	layers := [][]Removal{
		{{Weights: 2, Increase: 0.2}, {Weights: 2, Increase: 0.8}}, // 0.1, 0.4
		{{Weights: 2, Increase: 0.4}, {Weights: 2, Increase: 0.6}}, // 0.2, 0.3
		{{Weights: 8, Increase: 2}},                                // 0.25
	}
	for budget, want := range map[int][]int{
		1:   {0, 0, 0},
		2:   {1, 0, 0},
		4:   {1, 1, 0},
		11:  {1, 1, 0}, // the next block has 8 weights
		12:  {1, 1, 1},
		14:  {1, 2, 1},
		100: {2, 2, 1},
	} {
		if got := Allocate(layers, budget); !slices.Equal(got, want) {
			t.Errorf("budget %d: %v, want %v", budget, got, want)
		}
	}
}
