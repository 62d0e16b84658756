package comm

import (
	"fmt"
	"slices"
)

// Group is the group of some ranks of c, in that order, of which this one is one; nil for
// none. It sends no messages, unlike Split, so all ranks of the job must make their groups in
// step: with the k-th call each makes one of several that share no rank, or none.
//
// Errors: ranks that are not of c, or twice; this one not among them; too many groups in
// one job.
func (c *Comm) Group(ranks []int) (*Comm, error) {
	context := c.shared.contexts
	if context >= maxContexts {
		return nil, fmt.Errorf("making a group: more than %d groups", maxContexts)
	}
	c.shared.contexts++
	if len(ranks) == 0 {
		return nil, nil
	}
	g := &Comm{t: c.t, size: len(ranks), rank: slices.Index(ranks, c.rank), context: context, shared: c.shared, clock: c.clock, scratch: &scratch{}}
	seen := map[int]bool{}
	for _, r := range ranks {
		if r < 0 || r >= c.Size() || seen[r] {
			return nil, fmt.Errorf("making a group of ranks %v of %d: each is there, once", ranks, c.Size())
		}
		seen[r] = true
		g.ranks = append(g.ranks, c.WorldRank(r))
	}
	if g.rank < 0 {
		return nil, fmt.Errorf("making a group of ranks %v on rank %d, which is none of them", ranks, c.rank)
	}
	return g, nil
}
