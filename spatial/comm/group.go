package comm

import (
	"fmt"
	"slices"
)

// Group returns the group of the given ranks of c, in that order. The caller must
// be one of them; for an empty list the result is nil. Unlike Split it sends no
// messages, so all ranks of the job must create their groups in step: the k-th call
// of each rank creates one of several disjoint groups, or none.
//
// Errors: ranks outside c or listed twice; a list without the caller; too many
// groups in a job.
func (c *Comm) Group(ranks []int) (*Comm, error) {
	context := c.shared.contexts
	if context >= maxContexts {
		return nil, fmt.Errorf("creating a group: more than %d groups", maxContexts)
	}
	c.shared.contexts++
	if len(ranks) == 0 {
		return nil, nil
	}
	g := &Comm{t: c.t, size: len(ranks), rank: slices.Index(ranks, c.rank), context: context, shared: c.shared, sent: &traffic{}, clock: c.clock, scratch: &scratch{}}
	seen := map[int]bool{}
	for _, r := range ranks {
		if r < 0 || r >= c.Size() || seen[r] {
			return nil, fmt.Errorf("creating a group of ranks %v of %d: each rank must exist and be listed once", ranks, c.Size())
		}
		seen[r] = true
		g.ranks = append(g.ranks, c.WorldRank(r))
	}
	if g.rank < 0 {
		return nil, fmt.Errorf("creating a group of ranks %v: rank %d is not in the list", ranks, c.rank)
	}
	return g, nil
}

// Duplicate returns a group of the same ranks with messages of its own. It sends none, so all
// ranks of the job create their groups in step, as with Group.
//
// Errors: too many groups in a job.
func (c *Comm) Duplicate() (*Comm, error) {
	if c.shared.contexts >= maxContexts {
		return nil, fmt.Errorf("duplicating a group: more than %d groups", maxContexts)
	}
	g := *c
	g.context, g.scratch = c.shared.contexts, &scratch{}
	c.shared.contexts++
	return &g, nil
}
