package search

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Machine describes the hardware of a plan.
type Machine struct {
	FLOPs, Bytes float64 // per second, of one rank
	// ConvRate returns the measured FLOP/s of a convolution kernel; known is false
	// without a measurement. May be nil.
	ConvRate func(Conv) (flops float64, known bool)
	Memory   int64 // bytes per rank; 0 is no limit
	PerNode  int   // consecutive ranks that share a node; 0 means 1
	// Links within a node, and the single link of a node to the others.
	IntraNode, InterNode Link
	// Whether halos overlap with computing that needs no other rank, and gradient
	// sums with the backward pass.
	OverlapHalos, OverlapGradients bool
}

// Unlimited returns the machine without a limit of memory.
func (m Machine) Unlimited() Machine {
	m.Memory = 0
	return m
}

// Link has the parameters of the time of a message: latency Alpha, and Rate.
type Link struct {
	Alpha cluster.Time
	Rate  cluster.Rate
}

// seconds converts seconds to a Time.
func seconds(s float64) cluster.Time { return cluster.Time(math.Round(s * float64(cluster.Second))) }

// time returns the time, in seconds, of a number of messages with the given total
// size on a link that several ranks share.
func (l Link) time(messages, bytes, sharing float64) float64 {
	return messages*l.Alpha.Seconds() + bytes*sharing/float64(l.Rate)
}

// perNode returns the number of ranks per node.
func (m *Machine) perNode() int { return max(1, m.PerNode) }

// group is a set of ranks that differ only along some mesh axes. Neighbours differ
// by stride in their rank number.
type group struct {
	ranks     int
	stride    int  // difference between neighbouring ranks
	intraNode bool // all ranks are on one node
}

// link returns the link that a group's messages use and the number of ranks of a
// node that share it.
//
// In a ring over nodes only the ranks at the border of a node send to another node:
// one per group, and min(PerNode, stride) groups cross the border at the same
// place. In other patterns all ranks of a node may send to other nodes at the same
// time.
func (m *Machine) link(g group, ring bool) (l Link, sharing float64) {
	switch {
	case g.intraNode:
		return m.IntraNode, 1
	case ring:
		return m.InterNode, float64(min(m.perNode(), g.stride))
	}
	return m.InterNode, float64(m.perNode())
}

// allReduce returns the time of an all-reduce of float32 values over a group, with
// the algorithm that package comm selects, and the bytes that a rank sends:
//
//	ring      2(p−1)·α + 2(p−1)/p·βn
//	halving   2·log₂p·α + 2(p−1)/p·βn
//	doubling  log₂p·(α + βn), plus 2(α + βn) if p is not a power of two
//
// Steps between ranks of the same node use the link within the node.
//
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521.
func (m *Machine) allReduce(g group, values int64) (cluster.Time, int64) {
	if g.ranks < 2 || values == 0 {
		return 0, 0
	}
	p, n := float64(g.ranks), 4*float64(values)
	a := comm.Auto.Resolve(int(values), g.ranks)
	if a == comm.Ring {
		l, sharing := m.link(g, true)
		sent := 2 * (p - 1) / p * n
		return seconds(l.time(2*(p-1), sent, sharing)), int64(sent)
	}
	var t, sent float64
	step := func(distance int, bytes float64) { // to the rank at this distance in the group
		near := g
		near.intraNode = g.intraNode || m.perNode()%(2*distance*g.stride) == 0
		l, sharing := m.link(near, false)
		t += l.time(1, bytes, sharing)
		sent += bytes
	}
	part := n
	for d := 1; 2*d <= g.ranks; d *= 2 {
		if part /= 2; a == comm.Halving { // reduce-scatter and all-gather
			step(d, part)
			step(d, part)
		} else {
			step(d, n)
		}
	}
	if a == comm.Doubling && g.ranks&(g.ranks-1) != 0 { // the extra ranks are folded onto others
		step(1, n)
		step(1, n)
	}
	return seconds(t), int64(sent)
}

// allGather returns the time of a ring all-gather of float32 values over a group,
// (p−1)·α + (p−1)/p·βn, and the bytes that a rank sends.
func (m *Machine) allGather(g group, values int64) (cluster.Time, int64) {
	if g.ranks < 2 || values == 0 {
		return 0, 0
	}
	p := float64(g.ranks)
	sent := (p - 1) / p * 4 * float64(values)
	l, sharing := m.link(g, true)
	return seconds(l.time(p-1, sent, sharing)), int64(sent)
}

// computeTime returns the time of an operation:
//
//	t = max(FLOPs/rate, Bytes/bandwidth)
//
// (roofline model). A measured rate of a convolution includes memory traffic, so its second term is omitted.
//
// Unit: rate in FLOP/s, bandwidth in bytes per second.
func (m *Machine) computeTime(w Work) cluster.Time {
	if w.Conv != nil && m.ConvRate != nil {
		if rate, ok := m.ConvRate(*w.Conv); ok {
			return seconds(float64(w.FLOPs) / rate)
		}
	}
	return seconds(max(float64(w.FLOPs)/m.FLOPs, float64(w.Bytes)/m.Bytes))
}

// OperationTime returns the time of an operation of a graph before the compiler fuses operations.
func (m *Machine) OperationTime(g *graph.Graph, n *graph.Node) cluster.Time {
	return m.computeTime(workOf(g, n))
}

// MessageTime returns the time of messages of consecutive ranks, the first of which sends to the rank to, each α + βn. They are in
// transit at once, on one link between two nodes.
func (m *Machine) MessageTime(from, to, ranks int, bytes int64) cluster.Time {
	if m.Node(from) == m.Node(to) {
		return seconds(m.IntraNode.time(1, float64(bytes), 1))
	}
	return seconds(m.InterNode.time(1, float64(bytes), float64(min(ranks, m.perNode()))))
}

// Node is the node of a rank.
func (m *Machine) Node(rank int) int { return rank / m.perNode() }

// FLOPsTime returns the time of a number of operations at the peak rate of a rank.
func (m *Machine) FLOPsTime(flops int64) cluster.Time { return seconds(float64(flops) / m.FLOPs) }

// optimiserTime returns the time of one sweep over parameters, gradients and state.
// All are read, and all but the gradients are written: 3 + 2·state accesses of 4
// bytes per parameter.
func (m *Machine) optimiserTime(parameters int64, state int) cluster.Time {
	return seconds(4 * float64(parameters) * float64(3+2*state) / m.Bytes)
}
