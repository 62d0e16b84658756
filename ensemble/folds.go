package ensemble

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Fold is one block of years of the training starts, by their positions: Out are those of the
// block, In those that may be learned from to judge them. Others lie so near to the block
// that their forecasts overlap with its.
type Fold struct{ In, Out []int }

// Folds cuts starts into k blocks of consecutive years, for cross-fitting: what is fitted on
// In of a fold is applied to Out, so that every start is met once by a fit that did not see it.
// Blocks have equally many years, but for one. A start of another block is in neither part if
// its span from init to target meets that of a start of the block, ends included.
//
// Errors: exit 64 for fewer than two blocks, fewer years than blocks, or a block beside which
// nothing is left to learn from.
//
// Source: Chernozhukov et al. 2018, doi:10.1111/ectj.12097, section 3.
func Folds(inits []Init, k int, target Lead) ([]Fold, error) {
	var years []int
	for _, in := range inits {
		if y := in.Time.Year(); !slices.Contains(years, y) {
			years = append(years, y)
		}
	}
	slices.Sort(years)
	if k < 2 || len(years) < k {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d years of training cannot be cut into %d blocks", len(years), k),
			At: "model.bias.folds", Why: "each block is predicted by a network that learned from the other years; two are the least",
			Fix: "lower model.bias.folds to the number of years, or extend data.split.train"}
	}
	block := func(in Init) int {
		// Block f holds the years from ⌊fn/k⌋ to before ⌊(f+1)n/k⌋.
		return (k*(slices.Index(years, in.Time.Year())+1) - 1) / len(years)
	}
	overlap := func(a, b Init) bool {
		return !a.Time.After(b.Valid(target).Time) && !b.Time.After(a.Valid(target).Time)
	}
	folds := make([]Fold, k)
	for f := range folds {
		own := &folds[f]
		for i, in := range inits {
			if block(in) == f {
				own.Out = append(own.Out, i)
			}
		}
		for i, in := range inits {
			if block(in) != f && !slices.ContainsFunc(own.Out, func(o int) bool { return overlap(in, inits[o]) }) {
				own.In = append(own.In, i)
			}
		}
		if len(own.In) == 0 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("nothing is left to learn from beside the block of %d", inits[own.Out[0]].Time.Year()),
				At: "model.bias.folds", Why: "all other starts overlap with those of the block", Fix: "extend data.split.train"}
		}
	}
	return folds, nil
}
