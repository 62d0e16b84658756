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

// Scope is the set of channels whose scores are compared.
type Scope string

// The scopes.
const (
	Uniform Scope = "uniform" // each layer keeps the same fraction of channels
	Global  Scope = "global"  // the scores of all layers are compared
)

// Goal is the size of the network after pruning. Exactly one of Fraction and FLOPFraction is set.
type Goal struct {
	Fraction     float64 // fraction of the original channels to keep, in layers without pinned channels; 0 to 1
	FLOPFraction float64 // fraction of the original floating-point operations to keep, 0 to 1
	Scope        Scope   // empty means Uniform
	// PerFLOP divides each score by the operations that removing the channel saves; Global
	// only.
	PerFLOP bool
	// Multiple rounds the number of channels of a layer to a multiple; 0 means 1. A layer keeps at
	// least this number, or all of its channels.
	Multiple int
	// Original is the size of the original network; the zero value means the current one.
	Original OriginalSize
	// Exclude selects layers that keep all channels, by name; nil selects none.
	Exclude func(layer string) bool
}

// OriginalSize is the size of the original network, to which fractions refer.
type OriginalSize struct {
	Widths map[string]int // channels of each group, by its first filter
	FLOPs  int64          // floating-point operations of one forward pass
}

// OriginalSize returns the size of the current network.
func (c *Network) OriginalSize() OriginalSize {
	f := OriginalSize{Widths: map[string]int{}, FLOPs: c.g.FLOPs()}
	for _, fam := range c.groups {
		f.Widths[fam.Filters[0]] = fam.Width
	}
	return f
}

// ErrInfeasible marks a goal that cannot be reached by removing channels.
var ErrInfeasible = errors.New("pruning target out of reach")

// Choose selects the channels to remove, and lists the channels that remain. It removes the
// channels with the lowest scores; at equal scores those with higher indices.
//
// With Fraction the number of channels is as close to the goal as Multiple allows. With
// FLOPFraction it searches the largest fraction whose network needs at most the given operations. A
// network that needs fewer from the start loses nothing, and the result is nil.
//
// Shape: scores [group][channel], in the order of Groups.
// Errors: ErrInfeasible if a layer would lose all channels, or if pinned channels prevent the goal;
// the error names them.
// Cost: with FLOPFraction a bisection over the fraction, which shrinks the network 24 times.
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
		removed, err := c.selectLowest(goal, goal.Fraction, scores)
		if err != nil {
			return nil, err
		}
		return c.keptChannels(removed), nil
	}
	limit := int64(goal.FLOPFraction * float64(goal.Original.FLOPs))
	flops := func(share float64) (map[int]bool, int64) {
		removed, err := c.selectLowest(goal, share, scores)
		if err != nil { // a layer would be empty
			return nil, 0
		}
		g, _, err := c.shrink(removed)
		if err != nil {
			return nil, 0
		}
		return removed, g.FLOPs()
	}
	if c.g.FLOPs() <= limit {
		return nil, nil
	}
	best, at := flops(c.minFraction(goal))
	if best == nil || at > limit {
		return nil, c.infeasible(fmt.Sprintf("%.3g of the operations, minimum %.3g", goal.FLOPFraction, float64(at)/float64(goal.Original.FLOPs)))
	}
	// FLOPs are a step function that increases with the share. The bisection finds the largest
	// share within the limit; 24 halvings are finer than one channel of 10⁷.
	lo, hi := c.minFraction(goal), 1.0
	for range 24 {
		mid := (lo + hi) / 2
		if removed, n := flops(mid); removed != nil && n <= limit {
			best, lo = removed, mid
		} else {
			hi = mid
		}
	}
	return c.keptChannels(best), nil
}

// check sets defaults and refuses invalid goals.
func (c *Network) check(goal *Goal) error {
	goal.Scope, goal.Multiple = cmp.Or(goal.Scope, Uniform), max(goal.Multiple, 1)
	if goal.Original.Widths == nil {
		goal.Original = c.OriginalSize()
	}
	for _, share := range []float64{goal.Fraction, goal.FLOPFraction} {
		if !(share >= 0 && share <= 1) || (goal.Fraction > 0) == (goal.FLOPFraction > 0) {
			return fmt.Errorf("fraction %v of the channels and %v of the operations, want exactly one above 0 and at most 1: %w", goal.Fraction, goal.FLOPFraction, ErrInfeasible)
		}
	}
	if slices.ContainsFunc(c.groups, goal.isPrunable) {
		return nil
	}
	return c.infeasible("no channel can be removed")
}

// isPrunable reports whether channels of a group may be removed.
func (goal Goal) isPrunable(f Group) bool {
	return f.Pinned < f.Width && (goal.Exclude == nil || !slices.ContainsFunc(f.Filters, func(filter string) bool { return goal.Exclude(layerName(filter)) }))
}

// minFraction is a fraction at which every layer keeps the minimum number of channels.
func (c *Network) minFraction(goal Goal) float64 {
	fraction := 1.
	for _, f := range c.groups {
		if goal.isPrunable(f) {
			fraction = min(fraction, 1/float64(c.originalWidth(goal, f)))
		}
	}
	return fraction
}

// infeasible makes an ErrInfeasible that names the pinned channels.
func (c *Network) infeasible(what string) error {
	var pins []string
	for _, f := range c.groups {
		if f.Pinned > 0 {
			pins = append(pins, fmt.Sprintf("%d of %d of %s (%s)", f.Pinned, f.Width, f.Name(), strings.Join(f.Reasons, ", ")))
		}
	}
	return fmt.Errorf("%s; channels that cannot be removed: %s: %w", what, strings.Join(pins, "; "), ErrInfeasible)
}

// originalWidth is the original number of channels of a group.
func (c *Network) originalWidth(goal Goal, f Group) int {
	if w := goal.Original.Widths[f.Filters[0]]; w > 0 {
		return w
	}
	return f.Width
}

// roundWidth is the multiple closest to want, at least one multiple and at most width.
func roundWidth(want float64, multiple, width int) int {
	n := int(math.Round(want/float64(multiple))) * multiple
	return min(max(n, multiple), width)
}

// selectLowest selects the sets of channels to remove, so that a fraction share of the original
// channels remains.
//
// Errors: ErrInfeasible if a layer would lose all channels.
func (c *Network) selectLowest(goal Goal, share float64, scores [][]float64) (map[int]bool, error) {
	want := make([]float64, len(c.groups)) // channels to keep
	for i, f := range c.groups {
		want[i] = share * float64(c.originalWidth(goal, f))
		if goal.Scope == Uniform && goal.isPrunable(f) && want[i] < 0.5 && goal.Fraction > 0 {
			return nil, fmt.Errorf("fraction %v would remove all %d channels of layer %s: %w", share, c.originalWidth(goal, f), f.Name(), ErrInfeasible)
		}
	}
	if goal.Scope == Global {
		c.rankGlobally(share, goal, scores, want)
	}
	removed := map[int]bool{}
	for i, f := range c.groups {
		if !goal.isPrunable(f) {
			continue
		}
		n := f.Width - roundWidth(want[i], goal.Multiple, c.originalWidth(goal, f))
		for _, k := range byScore(scores[i]) {
			if s := f.sets[k]; n > 0 && c.ties.pinned(s) == "" {
				removed[s] = true
				n--
			}
		}
	}
	c.keepOnePerAxis(removed, scores)
	return removed, nil
}

// byScore lists indices by ascending score; at equal scores by descending index.
func byScore(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = len(scores) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	return order
}

// rankGlobally computes the number of channels that each group keeps with Global: the scores of all
// removable channels are sorted together, and the lowest are removed.
//
// Shape: scores [group][channel]; want [group], the result.
func (c *Network) rankGlobally(share float64, goal Goal, scores [][]float64, want []float64) {
	type one struct {
		family int
		score  float64
	}
	var all []one
	// The share refers to the original number of channels, of which some may have been removed by
	// an earlier call.
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

// scorePerFLOP divides the scores of a group by the operations that the network saves without one
// of its channels. Removing channels in this order is the greedy solution of the knapsack problem.
//
// All channels of a group save about the same, so only the first removable one is measured.
// Groups that can lose no channel keep their scores.
//
// Errors: those of shrink.
// Cost: one shrunk network for each group.
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

// keepOnePerAxis prevents an axis of a value from becoming empty. This can happen to a slice, or to
// one of several joined layers. The channel with the best score stays.
func (c *Network) keepOnePerAxis(removed map[int]bool, scores [][]float64) {
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
				if !removed[s] {
					best = -1
					break
				}
				if best < 0 || score(s) > score(best) {
					best = s
				}
			}
			if best >= 0 {
				delete(removed, best)
			}
		}
	}
}

// FLOPs counts the floating-point operations of the network with the kept channels, for the batch
// size of the graph.
func (c *Network) FLOPs(kept []Kept) (int64, error) {
	g, _, err := c.Shrink(kept)
	if err != nil {
		return 0, err
	}
	return g.FLOPs(), nil
}

// Parameters counts the trained values. Parameters whose names begin with the prefix without are
// left out; an empty prefix leaves out none.
func (c *Network) Parameters(without string) (n int) {
	for _, nd := range c.g.Nodes {
		if nd.Kind == graph.KindParam && (without == "" || !strings.HasPrefix(nd.Name, without)) {
			n += nd.Shape.Size()
		}
	}
	return n
}
