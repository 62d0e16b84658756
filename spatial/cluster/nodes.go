package cluster

import "fmt"

// Nodes is a network of nodes with PerNode consecutive ranks each. Messages within
// a node use the first network. All ranks of a node share one endpoint of the
// second network, between the nodes.
type Nodes struct {
	PerNode              int
	IntraNode, InterNode Network
}

// open creates both networks.
//
// Errors: those of the networks; networks with different overheads, as a rank
// spends the overhead before the destination is known.
func (n Nodes) open(c *clock, ranks int) (*wire, error) {
	if n.PerNode < 1 || n.IntraNode == nil || n.InterNode == nil {
		return nil, usage(fmt.Sprintf("invalid nodes of %d ranks", n.PerNode), "a node needs at least one rank, and messages need a network within and between nodes",
			"set 1 or more ranks, and both networks")
	}
	inside, err := n.IntraNode.open(c, ranks)
	if err != nil {
		return nil, err
	}
	between, err := n.InterNode.open(c, (ranks+n.PerNode-1)/n.PerNode)
	if err != nil {
		return nil, err
	}
	if inside.overhead != between.overhead {
		return nil, usage("the networks within and between nodes have different overheads", "a rank spends the overhead before the destination is known",
			"set the same overhead for both networks")
	}
	return &wire{bytes: between.bytes, overhead: between.overhead, carry: func(m *message, from, to int) {
		if a, b := from/n.PerNode, to/n.PerNode; a != b {
			between.carry(m, a, b)
		} else {
			inside.carry(m, from, to)
		}
	}}, nil
}
