package sbp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// DefaultRestarts is how many random plans a search starts from if it is not told.
const DefaultRestarts = 20

// Descent is a search by coordinate descent. Its zero value starts from Restarts plans
// that seed 0 draws.
type Descent struct {
	Restarts int
	Seed     uint64
}

// ErrMemory is a network that no plan fits into the memory of the ranks.
var ErrMemory = errors.New("no plan fits into memory")

// score orders plans: bytes over the limit of memory, then seconds, then bytes that all
// ranks send.
type score struct {
	over    int64
	seconds float64
	total   int64
}

func (s score) less(t score) bool {
	switch {
	case s.over != t.over:
		return s.over < t.over
	case s.seconds != t.seconds:
		return s.seconds < t.seconds
	}
	return s.total < t.total
}

func (c *costTable) score(choice []int) score {
	e := c.estimate(choice)
	s := score{seconds: e.Seconds, total: e.Communication().Total}
	if c.machine.Memory > 0 {
		s.over = max(0, e.Memory-c.machine.Memory)
	}
	return s
}

// Search finds a cheap plan: from each plan with one rule for all nodes, and from several
// random ones, it goes through the nodes and gives each the rule that is best while the
// others keep theirs, until a sweep changes nothing; the best of all is the plan. So
// it is never worse than the same rule everywhere. Of equal rules that which comes first
// by name is taken, so that all ranks find the same plan.
//
// A plan beyond the limit of memory costs more than any within, and less the nearer it
// comes.
//
// Errors: ErrMemory; ErrNetwork.
//
// Source: Chen et al. 2023, arXiv:2301.06813.
func (d Descent) Search(n Network, m Machine) (Plan, error) {
	c, err := newCostTable(n, m)
	if err != nil {
		return Plan{}, err
	}
	if d.Restarts == 0 {
		d.Restarts = DefaultRestarts
	}
	starts := c.uniformChoices()
	rng := rand.New(rand.NewPCG(d.Seed, 0))
	for range d.Restarts {
		choice := make([]int, len(n.Nodes))
		for v := range choice {
			choice[v] = rng.IntN(len(c.rules[v]))
		}
		starts = append(starts, choice)
	}
	var best []int
	for _, choice := range starts {
		for c.descend(choice) {
		}
		if best == nil || c.better(choice, best) {
			best = choice
		}
	}
	return c.fittingPlan(best)
}

// uniformChoices are the plans that give all nodes the rule of one name, where they have it:
// those that one would make by hand. Nodes without it take their first.
func (c *costTable) uniformChoices() [][]int {
	var plans [][]int
	seen := map[string]bool{}
	for _, rules := range c.rules {
		for _, named := range rules {
			if seen[named.Name] {
				continue
			}
			seen[named.Name] = true
			choice := make([]int, len(c.rules))
			for v := range choice {
				choice[v] = max(0, slices.IndexFunc(c.rules[v], func(r Rule) bool { return r.Name == named.Name }))
			}
			plans = append(plans, choice)
		}
	}
	return plans
}

// better orders plans, and equal ones by the names of their rules.
func (c *costTable) better(a, b []int) bool {
	s, t := c.score(a), c.score(b)
	return s.less(t) || !t.less(s) && slices.Compare(a, b) < 0
}

// descend gives every node in turn its best rule, and tells whether any changed.
func (c *costTable) descend(choice []int) bool {
	changed := false
	for v := range choice {
		before := choice[v]
		best, at := score{}, -1
		for i := range c.rules[v] {
			choice[v] = i
			if s := c.score(choice); at < 0 || s.less(best) {
				best, at = s, i
			}
		}
		choice[v] = at
		changed = changed || at != before
	}
	return changed
}

// Exhaustive tries every plan. It is for small networks, to judge Search by.
//
// Errors: ErrMemory; ErrNetwork.
func Exhaustive(n Network, m Machine) (Plan, error) {
	c, err := newCostTable(n, m)
	if err != nil {
		return Plan{}, err
	}
	choice := make([]int, len(n.Nodes))
	best, least := slices.Clone(choice), c.score(choice)
	for c.next(choice) {
		if s := c.score(choice); s.less(least) {
			least = s
			copy(best, choice)
		}
	}
	return c.fittingPlan(best)
}

// next is the plan behind a plan in the order of names; false behind the last.
func (c *costTable) next(choice []int) bool {
	for v := len(choice) - 1; v >= 0; v-- {
		if choice[v]++; choice[v] < len(c.rules[v]) {
			return true
		}
		choice[v] = 0
	}
	return false
}

// fittingPlan is the plan of a choice if it fits into memory.
func (c *costTable) fittingPlan(choice []int) (Plan, error) {
	p := c.plan(choice)
	if m := c.machine.Memory; m > 0 && p.Estimate.Memory > m {
		return p, fmt.Errorf("the leanest plan found holds %d bytes, the limit is %d: %w", p.Estimate.Memory, m, ErrMemory)
	}
	return p, nil
}
