package ensemble

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Fold is one fold of a cross-validation over training inits, as positions: HeldOut is the
// block of years, Train the inits to train on. Inits whose forecasts overlap with those of the
// block are in neither.
type Fold struct{ Train, HeldOut []int }

// Folds divides inits into k blocks of consecutive years for cross-fitting: a model fitted to
// Train is applied to HeldOut, so that every init is predicted by a model that was not trained on
// it. The numbers of years per block differ by at most one. An init of another block is
// excluded if its period from init to target overlaps with that of an init of the block, ends
// included.
//
// Errors: exit 64 for fewer than two blocks, fewer years than blocks, or a block without
// remaining training inits.
//
// Source: Chernozhukov et al. 2018, doi:10.1111/ectj.12097, section 3.
func Folds(inits []Init, k int, target Lead) ([]Fold, error) {
	years := yearsOf(inits)
	if k < 2 || len(years) < k {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d training years cannot be divided into %d blocks", len(years), k),
			At: "model.bias.folds", Why: "each block is predicted by a network trained on the other years; at least two blocks are needed",
			Fix: "lower model.bias.folds to the number of years, or extend data.split.train"}
	}
	return makeFolds(inits, k, target, 0, yearBlocks(inits, years, k), "model.bias.folds")
}

// GapFolds is Folds if there are at least k years, otherwise it divides the inits into k blocks
// of equally many consecutive inits. An init of another block is excluded if its period,
// extended by gap on both sides, overlaps with that of an init of the block.
//
// Errors: exit 64 for fewer than two blocks, fewer inits than blocks, or a block without
// remaining training inits.
func GapFolds(inits []Init, k int, target Lead, gap time.Duration) ([]Fold, error) {
	const at = "model.cross_fit.folds"
	if k < 2 || len(inits) < k {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d training inits cannot be divided into %d blocks", len(inits), k),
			At: at, Why: "the reference of each block is fitted to the other inits; at least two blocks are needed",
			Fix: "lower " + at + ", or extend data.split.train"}
	}
	if years := yearsOf(inits); len(years) >= k {
		return makeFolds(inits, k, target, gap, yearBlocks(inits, years, k), at)
	}
	return makeFolds(inits, k, target, gap, func(i int) int { return (k*(i+1) - 1) / len(inits) }, at)
}

// yearsOf lists the distinct years of inits, ascending.
func yearsOf(inits []Init) (years []int) {
	for _, in := range inits {
		if y := in.Time.Year(); !slices.Contains(years, y) {
			years = append(years, y)
		}
	}
	slices.Sort(years)
	return years
}

// yearBlocks returns the block of an init: block f contains the years from ⌊fn/k⌋ to before
// ⌊(f+1)n/k⌋. Here n is the number of years; the sizes of blocks differ by one year at most.
func yearBlocks(inits []Init, years []int, k int) func(i int) int {
	return func(i int) int { return (k*(slices.Index(years, inits[i].Time.Year())+1) - 1) / len(years) }
}

// makeFolds makes the folds of a division into blocks. at is the configuration key for errors.
//
// Inits whose forecasts overlap with one of the block, extended by gap, are in neither set of
// that fold: their weather is nearly the same.
//
// Errors: exit 64 for a block without remaining training inits.
func makeFolds(inits []Init, k int, target Lead, gap time.Duration, block func(i int) int, at string) ([]Fold, error) {
	// overlap: the closed periods init to valid time of a and b, the latter extended by gap,
	// have a time in common.
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
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no training inits remain for the block of %d", inits[own.HeldOut[0]].Time.Year()),
				At: at, Why: "all other inits overlap with those of the block", Fix: "extend data.split.train"}
		}
	}
	return folds, nil
}
