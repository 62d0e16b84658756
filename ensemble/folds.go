package ensemble

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Fold is one block of years of the training starts, by their positions: Out are those of the
// block, In those that may be learned from to judge them. Others lie so near to the block
// that their forecasts overlap with its.
type Fold struct{ Train, HeldOut []int }

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
	years := yearsOf(inits)
	if k < 2 || len(years) < k {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d years of training cannot be cut into %d blocks", len(years), k),
			At: "model.bias.folds", Why: "each block is predicted by a network that learned from the other years; two are the least",
			Fix: "lower model.bias.folds to the number of years, or extend data.split.train"}
	}
	return makeFolds(inits, k, target, 0, yearBlocks(inits, years, k), "model.bias.folds")
}

// GapFolds are Folds where there are so many years, and else k blocks of equally many
// consecutive starts. Of other blocks a start is in neither part if its span, made longer by gap
// on both sides, meets that of a start of the block.
//
// Errors: exit 64 for fewer than two blocks, fewer starts than blocks, or a block beside which
// nothing is left to learn from.
func GapFolds(inits []Init, k int, target Lead, gap time.Duration) ([]Fold, error) {
	const at = "model.cross_fit.folds"
	if k < 2 || len(inits) < k {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d starts of training cannot be cut into %d blocks", len(inits), k),
			At: at, Why: "the reference of each block is fitted to the other starts; two blocks are the least",
			Fix: "lower " + at + ", or extend data.split.train"}
	}
	if years := yearsOf(inits); len(years) >= k {
		return makeFolds(inits, k, target, gap, yearBlocks(inits, years, k), at)
	}
	return makeFolds(inits, k, target, gap, func(i int) int { return (k*(i+1) - 1) / len(inits) }, at)
}

// yearsOf lists the years of starts, ascending.
func yearsOf(inits []Init) (years []int) {
	for _, in := range inits {
		if y := in.Time.Year(); !slices.Contains(years, y) {
			years = append(years, y)
		}
	}
	slices.Sort(years)
	return years
}

// yearBlocks gives the block of a start: block f holds the years from ⌊fn/k⌋ to before ⌊(f+1)n/k⌋.
func yearBlocks(inits []Init, years []int, k int) func(i int) int {
	return func(i int) int { return (k*(slices.Index(years, inits[i].Time.Year())+1) - 1) / len(years) }
}

// makeFolds makes folds of the blocks of starts; at is the key that an error names.
func makeFolds(inits []Init, k int, target Lead, gap time.Duration, block func(i int) int, at string) ([]Fold, error) {
	overlap := func(a, b Init) bool {
		return !a.Time.After(b.Valid(target).Add(gap)) && !b.Time.After(a.Valid(target).Add(gap))
	}
	folds := make([]Fold, k)
	for f := range folds {
		own := &folds[f]
		for i := range inits {
			if block(i) == f {
				own.HeldOut = append(own.HeldOut, i)
			}
		}
		for i, in := range inits {
			if block(i) != f && !slices.ContainsFunc(own.HeldOut, func(o int) bool { return overlap(in, inits[o]) }) {
				own.Train = append(own.Train, i)
			}
		}
		if len(own.Train) == 0 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("nothing is left to learn from beside the block of %d", inits[own.HeldOut[0]].Time.Year()),
				At: at, Why: "all other starts overlap with those of the block", Fix: "extend data.split.train"}
		}
	}
	return folds, nil
}
