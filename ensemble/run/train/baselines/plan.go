package baselines

import (
	"slices"

	"github.com/ensemble-weather/ensemble/internal/balance"
)

// plan is which rank makes which fit of a group of sets. All ranks compute the same.
type plan struct {
	owners  []int   // [set][fit]: rank that makes the fit
	readers [][]int // [set]: ranks that make fits to it, ascending
}

// newPlan distributes the fits to a number of sets over ranks. All sets cost the same: they have the same fits, points and
// dates. So a multiple of the number of ranks is distributed evenly, whole, and their fields are sent once. The ranks
// are divided evenly among the sets that remain; those of a set share its fits by their costs, and each gets its fields.
func newPlan(sets int, fits []fit, ranks int) *plan {
	p := &plan{}
	whole := sets - sets%ranks
	for set := range whole {
		p.add(slices.Repeat([]int{set * ranks / whole}, len(fits)))
	}
	costs := make([]int64, len(fits))
	for i, f := range fits {
		costs[i] = f.cost
	}
	rest := sets - whole
	for k := range rest {
		first, end := k*ranks/rest, (k+1)*ranks/rest
		owners := balance.Assign(costs, end-first)
		for i := range owners {
			owners[i] += first
		}
		p.add(owners)
	}
	return p
}

// add adds a set, whose fits belong to owners.
func (p *plan) add(owners []int) {
	p.owners = append(p.owners, owners...)
	readers := slices.Clone(owners)
	slices.Sort(readers)
	p.readers = append(p.readers, slices.Compact(readers))
}

// setsOf returns the sets that a rank needs.
func (p *plan) setsOf(rank int) (sets []int) {
	for set, readers := range p.readers {
		if slices.Contains(readers, rank) {
			sets = append(sets, set)
		}
	}
	return sets
}
