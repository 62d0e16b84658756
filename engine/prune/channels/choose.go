package channels

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Scope says among which channels those of the lowest score are looked for.
type Scope string

// The scopes of channel removal.
const (
	Uniform Scope = "uniform" // every layer keeps the same share
	Global  Scope = "global"  // scores of all layers are compared
)

// Goal is how much of a network is to be left. Exactly one of Share and FLOPs is set.
type Goal struct {
	Share float64 // of the channels that the network had at first, of layers that are not pinned
	FLOPs float64 // of the operations that the network needed at first
	Scope Scope   // empty is Uniform
	// PerOperation divides scores by the operations that go with a channel, with Global.
	PerOperation bool
	// Multiple is what the number of channels that a layer keeps is rounded to a multiple of;
	// 0 means 1. A layer keeps at least so many, or all.
	Multiple int
	// First is the network that nothing was removed from; the zero value is the one at hand.
	First First
	// Stay, if not nil, tells layers that keep all their channels, by their names.
	Stay func(layer string) bool
}

// First is what shares are of.
type First struct {
	Widths map[string]int // of families, by their first filter
	FLOPs  int64
}

// First is the network at hand as what shares are of.
func (c *Network) First() First {
	f := First{Widths: map[string]int{}, FLOPs: c.g.FLOPs()}
	for _, fam := range c.families {
		f.Widths[fam.Filters[0]] = fam.Width
	}
	return f
}

// ErrGoal marks goals that no removal of channels reaches.
var ErrGoal = errors.New("the goal cannot be reached")

// Choose removes the channels of the lowest scores (of each family, in its order) until the goal is
// reached, and lists what is left; of equal ones those with lower numbers stay. What is left of a goal is nearest to it, but
// with FLOPs, which are no more than it says.
//
// Errors: ErrGoal for a goal that would take all of a layer, or that is out of reach because of
// what is pinned, which the error names.
func (c *Network) Choose(goal Goal, scores [][]float64) ([]Kept, error) {
	if err := c.check(&goal); err != nil {
		return nil, err
	}
	if goal.Scope == Global && goal.PerOperation {
		var err error
		if scores, err = c.perOperation(goal, scores); err != nil {
			return nil, err
		}
	}
	if goal.Share > 0 {
		gone, err := c.lowest(goal, goal.Share, scores)
		if err != nil {
			return nil, err
		}
		return c.kept(gone), nil
	}
	limit := int64(goal.FLOPs * float64(goal.First.FLOPs))
	flops := func(share float64) (map[int]bool, int64) {
		gone, err := c.lowest(goal, share, scores)
		if err != nil { // a layer that would be empty
			return nil, 0
		}
		g, _, err := c.shrink(gone)
		if err != nil {
			return nil, 0
		}
		return gone, g.FLOPs()
	}
	if c.g.FLOPs() <= limit {
		return nil, nil
	}
	least, at := flops(c.leastShare(goal))
	if least == nil || at > limit {
		return nil, c.outOfReach(fmt.Sprintf("%.3g of the operations, where %.3g is the least", goal.FLOPs, float64(at)/float64(goal.First.FLOPs)))
	}
	// The operations rise with the share, in steps.
	lo, hi := c.leastShare(goal), 1.0
	for range 24 {
		mid := (lo + hi) / 2
		if gone, n := flops(mid); gone != nil && n <= limit {
			least, lo = gone, mid
		} else {
			hi = mid
		}
	}
	return c.kept(least), nil
}

// check completes a goal and refuses what no network could be.
func (c *Network) check(goal *Goal) error {
	goal.Scope, goal.Multiple = cmp.Or(goal.Scope, Uniform), max(goal.Multiple, 1)
	if goal.First.Widths == nil {
		goal.First = c.First()
	}
	for _, share := range []float64{goal.Share, goal.FLOPs} {
		if !(share >= 0 && share <= 1) || (goal.Share > 0) == (goal.FLOPs > 0) {
			return fmt.Errorf("a share of %v of the channels and %v of the operations, want one of them above 0 and up to 1: %w", goal.Share, goal.FLOPs, ErrGoal)
		}
	}
	if slices.ContainsFunc(c.families, goal.prunes) {
		return nil
	}
	return c.outOfReach("less, where no channel can go")
}

// prunes tells whether a family may lose channels.
func (goal Goal) prunes(f Family) bool {
	return f.Pinned < f.Width && (goal.Stay == nil || !slices.ContainsFunc(f.Filters, func(filter string) bool { return goal.Stay(layerName(filter)) }))
}

// leastShare is one at which every layer keeps as few channels as it may.
func (c *Network) leastShare(goal Goal) float64 {
	least := 1.
	for _, f := range c.families {
		if goal.prunes(f) {
			least = min(least, 1/float64(c.width(goal, f)))
		}
	}
	return least
}

// outOfReach names what is pinned.
func (c *Network) outOfReach(what string) error {
	var pins []string
	for _, f := range c.families {
		if f.Pinned > 0 {
			pins = append(pins, fmt.Sprintf("%d of %d of %s: %s", f.Pinned, f.Width, f.Name(), strings.Join(f.Why, ", ")))
		}
	}
	return fmt.Errorf("%s; channels that cannot go: %s: %w", what, strings.Join(pins, "; "), ErrGoal)
}

// width is the first width of a family.
func (c *Network) width(goal Goal, f Family) int {
	if w := goal.First.Widths[f.Filters[0]]; w > 0 {
		return w
	}
	return f.Width
}

// round is the number of channels that a family keeps where want are asked for.
func round(want float64, multiple, width int) int {
	n := int(math.Round(want/float64(multiple))) * multiple
	return min(max(n, multiple), width)
}

// lowest are the sets to remove so that a share of the first channels is left.
//
// Errors: ErrGoal, if a layer would keep nothing.
func (c *Network) lowest(goal Goal, share float64, scores [][]float64) (map[int]bool, error) {
	want := make([]float64, len(c.families)) // channels to keep
	for i, f := range c.families {
		want[i] = share * float64(c.width(goal, f))
		if goal.Scope == Uniform && goal.prunes(f) && want[i] < 0.5 && goal.Share > 0 {
			return nil, fmt.Errorf("a share of %v leaves nothing of layer %s, which has %d channels: %w", share, f.Name(), c.width(goal, f), ErrGoal)
		}
	}
	if goal.Scope == Global {
		c.compare(share, goal, scores, want)
	}
	gone := map[int]bool{}
	for i, f := range c.families {
		if !goal.prunes(f) {
			continue
		}
		n := f.Width - round(want[i], goal.Multiple, c.width(goal, f))
		for _, k := range byScore(scores[i]) {
			if s := f.sets[k]; n > 0 && c.ties.pinned(s) == "" {
				gone[s] = true
				n--
			}
		}
	}
	c.leaveSome(gone, scores)
	return gone, nil
}

// byScore lists places from the lowest score up, of equal ones from the highest place down.
func byScore(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = len(scores) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	return order
}

// compare finds how many channels each family keeps where all that can go are compared.
func (c *Network) compare(share float64, goal Goal, scores [][]float64, want []float64) {
	type one struct {
		family int
		score  float64
	}
	var all []one
	first := 0
	for i, f := range c.families {
		if !goal.prunes(f) {
			continue
		}
		first += c.width(goal, f) - f.Pinned
		want[i] = float64(f.Width)
		for k, s := range f.sets {
			if c.ties.pinned(s) == "" {
				all = append(all, one{i, scores[i][k]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(a.score, b.score) })
	for _, o := range all[:max(0, len(all)-int(math.Round(share*float64(first))))] {
		want[o.family]--
	}
}

// perOperation divides scores by the operations that the network saves with a channel of the family,
// the first that can go. It is the order in which a knapsack is emptied.
func (c *Network) perOperation(goal Goal, scores [][]float64) ([][]float64, error) {
	out := make([][]float64, len(scores))
	for i, f := range c.families {
		out[i] = slices.Clone(scores[i])
		if !goal.prunes(f) || f.Width-f.Pinned < 2 {
			continue
		}
		k := slices.IndexFunc(f.sets, func(s int) bool { return c.ties.pinned(s) == "" })
		g, _, err := c.shrink(map[int]bool{f.sets[k]: true})
		if err != nil {
			return nil, err
		}
		for k := range out[i] {
			out[i][k] /= float64(max(c.g.FLOPs()-g.FLOPs(), 1))
		}
	}
	return out, nil
}

// leaveSome keeps of every axis of every value the best channel, if all of it would go: that of a
// slice, or of one of several layers that are joined.
func (c *Network) leaveSome(gone map[int]bool, scores [][]float64) {
	score := func(s int) float64 {
		f := c.of[s]
		k, _ := slices.BinarySearch(c.families[f].sets, s)
		return scores[f][k]
	}
	for _, n := range c.g.Nodes {
		for axis, d := range n.Shape {
			best := -1
			for i := range d {
				s := c.ties.set(n.ID, axis, i)
				if !gone[s] {
					best = -1
					break
				}
				if best < 0 || score(s) > score(best) {
					best = s
				}
			}
			if best >= 0 {
				delete(gone, best)
			}
		}
	}
}

// FLOPs are those of the network that is left of kept, for the one sample or batch that the graph has.
func (c *Network) FLOPs(kept []Kept) (int64, error) {
	g, _, err := c.Shrink(kept)
	if err != nil {
		return 0, err
	}
	return g.FLOPs(), nil
}

// Parameters counts the trained values, without those whose names begin with a prefix, if it is not empty.
func (c *Network) Parameters(without string) (n int) {
	for _, nd := range c.g.Nodes {
		if nd.Kind == graph.KindParam && (without == "" || !strings.HasPrefix(nd.Name, without)) {
			n += nd.Shape.Size()
		}
	}
	return n
}
