package sbp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/spatial"
)

// Input stands in Node.From for an input of the network. Ranks load it in the letters
// in which the node reads it.
const Input = -1

// Node is an operation of a network, and the nodes whose results are its operands.
type Node struct {
	Name string // without colon and line break
	Op   Op
	From []int // by operand: earlier nodes, or Input
}

// Network is what a plan is made for: nodes in an order in which they can be computed.
// A result that no node reads goes into the loss, which takes it in the letters in which
// it gives the gradient.
type Network struct {
	Nodes []Node
	Unit  int // bytes of an element
	// State is how many numbers the optimiser keeps for each weight, beside the weight
	// and its gradient.
	State int
	// Sharded cuts the optimiser's work and State along the first dimension of the
	// weights over ranks that have the same weights: gradients are scattered, and the
	// weights gathered.
	Sharded bool
	// InputGradients tells that the gradients of inputs are wanted too, in the letters
	// of the inputs.
	InputGradients bool
}

// Machine is what a plan is made on.
type Machine struct {
	Mesh spatial.Mesh
	Link Link
	Rate float64 // FLOP/s of a rank; 0 if computing takes no time
	// Merge is that of Converter.
	Merge bool
	// Overlap sums gradients of weights, one after the other, while the backward pass
	// goes on. Otherwise they come after it.
	Overlap bool
	Memory  int64 // bytes of a rank; 0 means no limit
}

// ErrNetwork is a network that is not one.
var ErrNetwork = errors.New("not a network")

func (n Network) check() error {
	names := map[string]bool{}
	for v, node := range n.Nodes {
		if node.Name == "" || strings.ContainsAny(node.Name, ":\n") {
			return fmt.Errorf("a node named %q: %w", node.Name, ErrNetwork)
		}
		if names[node.Name] {
			return fmt.Errorf("two nodes %q: %w", node.Name, ErrNetwork)
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

// hasReaders tells for each node whether another reads its result.
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
