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

// Goal is how much of a network is to be left. Exactly one of Share and FLOPFraction is set.
type Goal struct {
	Fraction     float64 // of the channels that the network had at first, of layers that are not pinned
	FLOPFraction float64 // of the operations that the network needed at first
	Scope        Scope   // empty is Uniform
	// PerFLOP divides scores by the operations that go with a channel, with Global.
	PerFLOP bool
	// Multiple is what the number of channels that a layer keeps is rounded to a multiple of;
	// 0 means 1. A layer keeps at least so many, or all.
	Multiple int
	// Original is the network that nothing was removed from; the zero value is the one at hand.
	Original OriginalSize
	// Exclude, if not nil, tells layers that keep all their channels, by their names.
	Exclude func(layer string) bool
}

// OriginalSize is what shares are of.
type OriginalSize struct {
	Widths map[string]int // of families, by their first filter
	FLOPs  int64
}

// OriginalSize is the network at hand as what shares are of.
func (c *Network) OriginalSize() OriginalSize {
	f := OriginalSize{Widths: map[string]int{}, FLOPs: c.g.FLOPs()}
	for _, fam := range c.groups {
		f.Widths[fam.Filters[0]] = fam.Width
	}
	return f
}

// ErrInfeasible marks goals that no removal of channels reaches.
var ErrInfeasible = errors.New("the goal cannot be reached")

// Choose removes the channels of the lowest scores (of each family, in its order) until the goal is
// reached, and lists what is left; of equal ones those with lower numbers stay. What is left of a goal is nearest to it, but
// with FLOPFraction, which are no more than it says.
//
// Errors: ErrInfeasible for a goal that would take all of a layer, or that is out of reach because of
// what is pinned, which the error names.
func (c *Network) Choose(goal Goal, scores [][]float64) ([]Kept, error) {
	if err := c.check(&goal); err != nil {
		return nil, err
	}
	if goal.Scope == Global && goal.PerFLOP {
		var err error
		if scores, err = c.scorePerFLOP(goal, scores); err != nil {
			return nil, err
		}
	}
	if goal.Fraction > 0 {
		gone, err := c.selectLowest(goal, goal.Fraction, scores)
		if err != nil {
			return nil, err
		}
		return c.keptChannels(gone), nil
	}
	limit := int64(goal.FLOPFraction * float64(goal.Original.FLOPs))
	flops := func(share float64) (map[int]bool, int64) {
		gone, err := c.selectLowest(goal, share, scores)
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
	least, at := flops(c.minFraction(goal))
	if least == nil || at > limit {
		return nil, c.infeasible(fmt.Sprintf("%.3g of the operations, where %.3g is the least", goal.FLOPFraction, float64(at)/float64(goal.Original.FLOPs)))
	}
	// The operations rise with the share, in steps.
	lo, hi := c.minFraction(goal), 1.0
	for range 24 {
		mid := (lo + hi) / 2
		if gone, n := flops(mid); gone != nil && n <= limit {
			least, lo = gone, mid
		} else {
			hi = mid
		}
	}
	return c.keptChannels(least), nil
}

// check completes a goal and refuses what no network could be.
func (c *Network) check(goal *Goal) error {
	goal.Scope, goal.Multiple = cmp.Or(goal.Scope, Uniform), max(goal.Multiple, 1)
	if goal.Original.Widths == nil {
		goal.Original = c.OriginalSize()
	}
	for _, share := range []float64{goal.Fraction, goal.FLOPFraction} {
		if !(share >= 0 && share <= 1) || (goal.Fraction > 0) == (goal.FLOPFraction > 0) {
			return fmt.Errorf("a share of %v of the channels and %v of the operations, want one of them above 0 and up to 1: %w", goal.Fraction, goal.FLOPFraction, ErrInfeasible)
		}
	}
	if slices.ContainsFunc(c.groups, goal.isPrunable) {
		return nil
	}
	return c.infeasible("less, where no channel can go")
}

// isPrunable tells whether a family may lose channels.
func (goal Goal) isPrunable(f Group) bool {
	return f.Pinned < f.Width && (goal.Exclude == nil || !slices.ContainsFunc(f.Filters, func(filter string) bool { return goal.Exclude(layerName(filter)) }))
}

// minFraction is one at which every layer keeps as few channels as it may.
func (c *Network) minFraction(goal Goal) float64 {
	least := 1.
	for _, f := range c.groups {
		if goal.isPrunable(f) {
			least = min(least, 1/float64(c.originalWidth(goal, f)))
		}
	}
	return least
}

// infeasible names what is pinned.
func (c *Network) infeasible(what string) error {
	var pins []string
	for _, f := range c.groups {
		if f.Pinned > 0 {
			pins = append(pins, fmt.Sprintf("%d of %d of %s: %s", f.Pinned, f.Width, f.Name(), strings.Join(f.Reasons, ", ")))
		}
	}
	return fmt.Errorf("%s; channels that cannot go: %s: %w", what, strings.Join(pins, "; "), ErrInfeasible)
}

// originalWidth is the first width of a family.
func (c *Network) originalWidth(goal Goal, f Group) int {
	if w := goal.Original.Widths[f.Filters[0]]; w > 0 {
		return w
	}
	return f.Width
}

// roundWidth is the number of channels that a family keeps where want are asked for.
func roundWidth(want float64, multiple, width int) int {
	n := int(math.Round(want/float64(multiple))) * multiple
	return min(max(n, multiple), width)
}

// selectLowest are the sets to remove so that a share of the first channels is left.
//
// Errors: ErrInfeasible, if a layer would keep nothing.
func (c *Network) selectLowest(goal Goal, share float64, scores [][]float64) (map[int]bool, error) {
	want := make([]float64, len(c.groups)) // channels to keep
	for i, f := range c.groups {
		want[i] = share * float64(c.originalWidth(goal, f))
		if goal.Scope == Uniform && goal.isPrunable(f) && want[i] < 0.5 && goal.Fraction > 0 {
			return nil, fmt.Errorf("a share of %v leaves nothing of layer %s, which has %d channels: %w", share, f.Name(), c.originalWidth(goal, f), ErrInfeasible)
		}
	}
	if goal.Scope == Global {
		c.rankGlobally(share, goal, scores, want)
	}
	gone := map[int]bool{}
	for i, f := range c.groups {
		if !goal.isPrunable(f) {
			continue
		}
		n := f.Width - roundWidth(want[i], goal.Multiple, c.originalWidth(goal, f))
		for _, k := range byScore(scores[i]) {
			if s := f.sets[k]; n > 0 && c.ties.pinned(s) == "" {
				gone[s] = true
				n--
			}
		}
	}
	c.keepOnePerAxis(gone, scores)
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

// rankGlobally finds how many channels each family keeps where all that can go are compared.
func (c *Network) rankGlobally(share float64, goal Goal, scores [][]float64, want []float64) {
	type one struct {
		family int
		score  float64
	}
	var all []one
	first := 0
	for i, f := range c.groups {
		if !goal.isPrunable(f) {
			continue
		}
		first += c.originalWidth(goal, f) - f.Pinned
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

// scorePerFLOP divides scores by the operations that the network saves with a channel of the family,
// the first that can go. It is the order in which a knapsack is emptied.
func (c *Network) scorePerFLOP(goal Goal, scores [][]float64) ([][]float64, error) {
	out := make([][]float64, len(scores))
	for i, f := range c.groups {
		out[i] = slices.Clone(scores[i])
		if !goal.isPrunable(f) || f.Width-f.Pinned < 2 {
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

// keepOnePerAxis keeps of every axis of every value the best channel, if all of it would go: that of a
// slice, or of one of several layers that are joined.
func (c *Network) keepOnePerAxis(gone map[int]bool, scores [][]float64) {
	score := func(s int) float64 {
		f := c.groupOf[s]
		k, _ := slices.BinarySearch(c.groups[f].sets, s)
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

// FLOPFraction are those of the network that is left of kept, for the one sample or batch that the graph has.
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
