package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// schedule chooses between the order of the graph and a greedy order. The
// greedy order always runs the operation that adds least to the memory in use,
// and the lowest number among equals. It is used if it needs at least 5 % less
// memory; otherwise the order of the graph keeps related operations together.
//
// With Options.Forward the operations of the forward part come first, otherwise in that order.
//
// Memory: the peak counts results of operations only, since inputs, constants
// and the store are in memory all the time.
// Cost: O(n²) for n operations, since every step of the greedy order examines
// all remaining operations.
func schedule(u *Unit) error {
	given := givenOrder(u.Graph)
	u.Sequence = given
	greedy := greedyOrder(u.Graph, len(given))
	if float64(peak(u.Graph, greedy)) < 0.95*float64(peak(u.Graph, given)) {
		u.Sequence = greedy
	}
	if u.Forward != nil {
		isFirst := ForwardPart(u.Graph, u.Forward)
		slices.SortStableFunc(u.Sequence, func(a, b int) int {
			switch {
			case isFirst[a] == isFirst[b]:
				return 0
			case isFirst[a]:
				return -1
			}
			return 1
		})
	}
	return nil
}

// ForwardPart marks the nodes that the named outputs and the loss depend on.
func ForwardPart(g *graph.Graph, outputs []string) []bool {
	var roots []int
	for _, o := range g.Outputs {
		if slices.Contains(outputs, o.Name) {
			roots = append(roots, o.ID)
		}
	}
	if g.Loss >= 0 {
		roots = append(roots, g.Loss)
	}
	return g.Needed(roots)
}

// givenOrder lists the operations in the order of the graph.
func givenOrder(g *graph.Graph) []int {
	var given []int
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && !n.Op.Alias {
			given = append(given, n.ID)
		}
	}
	return given
}

// readers lists, for every memory root, the operations that read it. stays
// marks the roots that stay in memory: values that are not results of
// operations, and outputs of the graph.
func readers(g *graph.Graph) (by [][]int, stays []bool) {
	by, stays = make([][]int, len(g.Nodes)), make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp {
			stays[n.ID] = true
			continue
		}
		if n.Op.Alias {
			continue
		}
		for _, id := range n.In {
			if r := g.AliasRoot(id); !slices.Contains(by[r], n.ID) {
				by[r] = append(by[r], n.ID)
			}
		}
	}
	for _, id := range g.Roots() {
		stays[g.AliasRoot(id)] = true
	}
	return by, stays
}

// greedyOrder is the greedy order of the n operations of g. The cost of an
// operation is the size of its result minus the size of the operands that it
// reads last. An operation is ready once its operands are computed. Ordered
// operations, which communicate between ranks, keep their relative order:
// otherwise ranks could wait for each other.
func greedyOrder(g *graph.Graph, n int) []int {
	by, stays := readers(g)
	left := make([]int, len(g.Nodes)) // remaining readers of a root
	for i := range left {
		left[i] = len(by[i])
	}
	done := make([]bool, len(g.Nodes))
	var ordered []int // remaining ordered operations
	for _, nd := range g.Nodes {
		if nd.Kind == graph.KindOp && nd.Op.Ordered {
			ordered = append(ordered, nd.ID)
		}
	}
	ready := func(id int) bool {
		if g.Nodes[id].Op.Ordered && id != ordered[0] {
			return false
		}
		for _, in := range g.Nodes[id].In {
			if r := g.AliasRoot(in); g.Nodes[r].Kind == graph.KindOp && !done[r] {
				return false
			}
		}
		return true
	}
	order := make([]int, 0, n)
	for len(order) < n {
		// Operands that are read for the last time are freed by the operation.
		best, bestCost := -1, 0
		for _, nd := range g.Nodes {
			if nd.Kind != graph.KindOp || nd.Op.Alias || done[nd.ID] || !ready(nd.ID) {
				continue
			}
			cost := nd.ArenaElems()
			for _, r := range rootsOf(g, nd) {
				if !stays[r] && left[r] == 1 {
					cost -= g.Nodes[r].ArenaElems()
				}
			}
			if best < 0 || cost < bestCost {
				best, bestCost = nd.ID, cost
			}
		}
		done[best] = true
		if g.Nodes[best].Op.Ordered {
			ordered = ordered[1:]
		}
		for _, r := range rootsOf(g, g.Nodes[best]) {
			left[r]--
		}
		order = append(order, best)
	}
	return order
}

// rootsOf lists the memory roots of the operands of n, each once.
func rootsOf(g *graph.Graph, n *graph.Node) []int {
	var out []int
	for _, id := range n.In {
		if r := g.AliasRoot(id); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// peak is the largest number of elements of results alive at one time. A result
// is alive from its operation to its last reader, or to the end if it is an
// output of the graph. The operands of an operation are alive while it runs;
// reuse in place is not modelled.
func peak(g *graph.Graph, order []int) int {
	by, stays := readers(g)
	left := make([]int, len(g.Nodes))
	for i := range left {
		left[i] = len(by[i])
	}
	live, top := 0, 0
	for _, id := range order {
		live += g.Nodes[id].ArenaElems()
		top = max(top, live)
		for _, r := range rootsOf(g, g.Nodes[id]) {
			if left[r]--; left[r] == 0 && !stays[r] {
				live -= g.Nodes[r].ArenaElems()
			}
		}
	}
	return top
}
