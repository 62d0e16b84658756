package partial

import (
	"fmt"
	"math/bits"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// butterfly arranges P = 2^all ranks in groups of S = 2^own that change from step to step. The
// ranks of a group differ in the bits (step·own + r) mod all of their numbers, r = 0 … own−1.
// After ⌈all/own⌉ steps the average of averages is that over all ranks.
//
// Source: Li et al. 2021, arXiv:2005.00124.
type butterfly struct{ all, own int }

// newButterfly returns the groups of a number of ranks.
//
// Errors: exit 64 unless both are powers of two and the group has no more ranks than there
// are, with the nearest ones that work.
func newButterfly(ranks, size int) (butterfly, error) {
	usage := func(what, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, Why: "the groups of each step are ranks that differ in some bits of their numbers", Fix: fix}
	}
	switch {
	case !isPower(ranks):
		low := 1 << (bits.Len(uint(ranks)) - 1)
		return butterfly{}, usage(fmt.Sprintf("%d ranks cannot average in groups", ranks), fmt.Sprintf("use %d or %d ranks", low, 2*low))
	case size > ranks:
		return butterfly{}, usage(fmt.Sprintf("groups of %d in %d ranks", size, ranks), fmt.Sprintf("use groups of %d or fewer", ranks))
	case size < 1:
		return butterfly{}, usage(fmt.Sprintf("groups of %d", size), "use groups of 1 or more")
	case !isPower(size):
		low := 1 << (bits.Len(uint(size)) - 1)
		return butterfly{}, usage(fmt.Sprintf("groups of %d", size), fmt.Sprintf("use groups of %d or %d", low, 2*low))
	}
	return butterfly{bits.Len(uint(ranks)) - 1, bits.Len(uint(size)) - 1}, nil
}

func isPower(n int) bool { return n > 0 && n&(n-1) == 0 }

// cycle returns the number of steps after which the groups are the same again.
func (b butterfly) cycle() int {
	for n := 1; ; n++ {
		if b.all == 0 || n*b.own%b.all == 0 {
			return n
		}
	}
}

// members returns the ranks of the group of a rank at a step. Neighbours in the list differ
// in the first of the bits, as in the first exchange of a sum.
func (b butterfly) members(rank, step int) []int {
	list := []int{rank}
	for r := range b.own {
		bit := 1 << ((step*b.own + r) % b.all)
		list[0] &^= bit
	}
	for r := range b.own {
		bit := 1 << ((step*b.own + r) % b.all)
		for _, m := range list {
			list = append(list, m|bit)
		}
	}
	return list
}

// groups returns the groups of this rank for the steps of a cycle.
func (b butterfly) groups(all *comm.Comm) ([]*comm.Comm, error) {
	var out []*comm.Comm
	for step := range b.cycle() {
		g, err := all.Group(b.members(all.Rank(), step))
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}
