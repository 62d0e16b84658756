package sbp

import (
	"fmt"
	"math"
)

// Chain finds the best plan of a network in which each node reads the one before.
// It uses dynamic programming over the rule of the last node (the Viterbi
// algorithm).
//
// Errors: ErrNetwork for a network that is not a chain, and for a machine with Overlap
// or a memory limit, for which the costs of nodes are not additive.
// Cost: O(nodes · rules²).
// Source: Viterbi 1967, doi:10.1109/TIT.1967.1054010.
func Chain(n Network, m Machine) (Plan, error) {
	c, err := newCostTable(n, m)
	if err != nil {
		return Plan{}, err
	}
	if m.Overlap || m.Memory > 0 {
		return Plan{}, fmt.Errorf("chain with overlap or a memory limit: %w", ErrNetwork)
	}
	for v, node := range n.Nodes {
		if len(node.From) != 1 || node.From[0] != v-1 { // Input is −1, the predecessor of node 0
			return Plan{}, fmt.Errorf("node %q reads %v, want the node before it: %w", node.Name, node.From, ErrNetwork)
		}
	}
	// least[v][i] is the lowest cost up to node v with rule i, back[v][i] the rule
	// of node v−1 in it
	least, back := make([][]score, len(n.Nodes)), make([][]int, len(n.Nodes))
	for v := range n.Nodes {
		for i := range c.rules[v] {
			best, at := score{}, 0
			if v > 0 {
				best.seconds = math.Inf(1)
				for j, before := range least[v-1] {
					p := &c.edge[v][0][i][j]
					before.seconds += p.forward.seconds + p.backward.seconds
					before.total += p.forward.moved.Total + p.backward.moved.Total
					if before.less(best) {
						best, at = before, j
					}
				}
			}
			o := &c.own[v][i]
			best.seconds += o.forward.seconds + o.backward.seconds + o.reduce.seconds
			best.total += o.forward.moved.Total + o.backward.moved.Total + o.reduce.moved.Total
			least[v], back[v] = append(least[v], best), append(back[v], at)
		}
	}
	choice := make([]int, len(n.Nodes))
	for v := len(choice) - 1; v >= 0; v-- {
		if v+1 < len(choice) {
			choice[v] = back[v+1][choice[v+1]]
			continue
		}
		for i, s := range least[v] {
			if s.less(least[v][choice[v]]) {
				choice[v] = i
			}
		}
	}
	return c.plan(choice), nil
}
