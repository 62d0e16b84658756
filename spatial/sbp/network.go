package sbp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/spatial"
)

// Input in Node.From denotes an input of the network. Ranks load it in the
// signature in which the node reads it.
const Input = -1

// Node is an operation of a network, and the nodes that compute its operands.
type Node struct {
	Name string // without colons and line breaks
	Op   Op
	From []int // by operand: earlier nodes, or Input
}

// Network is the input of the planner: nodes in an order of execution. A result
// that no node reads goes into the loss.
type Network struct {
	Nodes []Node
	Unit  int // bytes per element
	// State is the number of values per weight that the optimiser keeps, in
	// addition to the weight and its gradient.
	State int
	// Sharded splits the optimiser's work and state along the first dimension of
	// the weights over ranks with the same weights. Gradients are reduce-scattered
	// and weights all-gathered.
	Sharded bool
	// InputGradients requests the gradients of inputs, in the signatures of the
	// inputs.
	InputGradients bool
}

// Machine describes the hardware of a plan.
type Machine struct {
	Mesh  spatial.Mesh
	Link  Link
	Rate  float64 // FLOP/s of a rank; 0 ignores computing time
	Merge bool    // Merge is Converter.Merge.
	// Overlap sums gradients of weights during the backward pass, one after the
	// other; otherwise after the pass.
	Overlap bool
	Memory  int64 // bytes per rank; 0 is no limit
}

// ErrNetwork marks an invalid network.
var ErrNetwork = errors.New("invalid network")

// check returns an error for invalid or duplicate names, and for operands that do
// not match.
func (n Network) check() error {
	names := map[string]bool{}
	for v, node := range n.Nodes {
		if node.Name == "" || strings.ContainsAny(node.Name, ":\n") {
			return fmt.Errorf("invalid node name %q: %w", node.Name, ErrNetwork)
		}
		if names[node.Name] {
			return fmt.Errorf("duplicate node name %q: %w", node.Name, ErrNetwork)
		}
		names[node.Name] = true
		if len(node.From) != len(node.Op.X) {
			return fmt.Errorf("node %q: %d operands, want %d: %w", node.Name, len(node.From), len(node.Op.X), ErrNetwork)
		}
		for k, u := range node.From {
			if u < Input || u >= v {
				return fmt.Errorf("node %q: operand %d of node %d: %w", node.Name, k, u, ErrNetwork)
			}
			if u != Input && !slices.Equal(n.Nodes[u].Op.Y, node.Op.X[k]) {
				return fmt.Errorf("node %q: operand %d is %v, want %v: %w", node.Name, k, n.Nodes[u].Op.Y, node.Op.X[k], ErrNetwork)
			}
		}
	}
	return nil
}

// hasReaders reports for each node whether another node reads its result.
func (n Network) hasReaders() []bool {
	read := make([]bool, len(n.Nodes))
	for _, node := range n.Nodes {
		for _, u := range node.From {
			if u != Input {
				read[u] = true
			}
		}
	}
	return read
}
