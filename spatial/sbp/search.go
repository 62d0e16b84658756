package sbp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// DefaultRestarts is the default number of random initial plans.
const DefaultRestarts = 20

// Descent searches by coordinate descent. The zero value uses DefaultRestarts
// random initial plans with seed 0.
type Descent struct {
	Restarts int // random initial plans; 0 means the default
	Seed     uint64
}

// ErrMemory means that no plan fits into the memory of the ranks.
var ErrMemory = errors.New("no plan fits into memory")

// score orders plans: by bytes above the memory limit, then by time, then by bytes
// that all ranks send.
type score struct {
	over    int64
	seconds float64
	total   int64
}

// less reports whether s is better than t.
func (s score) less(t score) bool {
	switch {
	case s.over != t.over:
		return s.over < t.over
	case s.seconds != t.seconds:
		return s.seconds < t.seconds
	}
	return s.total < t.total
}

// score returns the score of a choice of rules.
func (c *costTable) score(choice []int) score {
	e := c.estimate(choice)
	s := score{seconds: e.Seconds, total: e.Communication().Total}
	if c.machine.Memory > 0 {
		s.over = max(0, e.Memory-c.machine.Memory)
	}
	return s
}

// Search finds a fast plan by coordinate descent. Initial plans are those with one
// rule for all nodes, and random ones. A sweep assigns to each node in turn the
// rule that is best while the others keep theirs; sweeps repeat until nothing
// changes. The result is thus never worse than one rule for all nodes. Ties are
// resolved by the names of rules, so that all ranks find the same plan.
//
// A plan above the memory limit is worse than any within it, and better the closer
// it is to the limit.
//
// Errors: ErrMemory; ErrNetwork.
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

// uniformChoices returns the plans that use one rule for all nodes. Nodes without
// that rule use their first.
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

// better orders plans by score, then by the names of their rules.
func (c *costTable) better(a, b []int) bool {
	s, t := c.score(a), c.score(b)
	return s.less(t) || !t.less(s) && slices.Compare(a, b) < 0
}

// descend assigns to every node in turn its best rule, and reports whether any
// changed.
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

// Exhaustive tries every plan. It is the reference for Search on small networks.
//
// Errors: ErrMemory; ErrNetwork.
// Cost: O(rules^nodes).
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

// next advances to the next plan in lexicographic order; false after the last.
func (c *costTable) next(choice []int) bool {
	for v := len(choice) - 1; v >= 0; v-- {
		if choice[v]++; choice[v] < len(c.rules[v]) {
			return true
		}
		choice[v] = 0
	}
	return false
}

// fittingPlan returns the plan of a choice if it fits into memory.
func (c *costTable) fittingPlan(choice []int) (Plan, error) {
	p := c.plan(choice)
	if m := c.machine.Memory; m > 0 && p.Estimate.Memory > m {
		return p, fmt.Errorf("the smallest plan found needs %d bytes per rank, the limit is %d: %w", p.Estimate.Memory, m, ErrMemory)
	}
	return p, nil
}
