package cluster

import "fmt"

// Nodes is a network of nodes with several ranks each: PerNode consecutive ranks share a
// node, and its one place in the network Between the nodes. Messages within a node take
// what Inside says.
type Nodes struct {
	PerNode              int
	IntraNode, InterNode Network
}

func (n Nodes) open(c *clock, ranks int) (*wire, error) {
	if n.PerNode < 1 || n.IntraNode == nil || n.InterNode == nil {
		return nil, usage(fmt.Sprintf("nodes of %d ranks", n.PerNode), "a rank has a node, and messages a way within and between nodes",
			"give 1 or more ranks, and both networks")
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
		return nil, usage("nodes whose networks differ in what a message takes of a rank's time", "a rank pays before it knows the way",
			"give both networks one overhead")
	}
	return &wire{bytes: between.bytes, overhead: between.overhead, carry: func(m *message, from, to int) {
		if a, b := from/n.PerNode, to/n.PerNode; a != b {
			between.carry(m, a, b)
		} else {
			inside.carry(m, from, to)
		}
	}}, nil
}
