package search

import (
	"math"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Machine is what a plan is priced on.
type Machine struct {
	FLOPs, Bytes float64 // a second, of one rank
	// ConvRate gives the FLOP/s of a convolution's kernel where it is known; may be nil.
	ConvRate func(Conv) (flops float64, known bool)
	Memory   int64 // bytes of a rank; 0 sets no limit
	PerNode  int   // consecutive ranks that share a node; 0 means 1
	// IntraNode joins the ranks of a node, Between is the one link of a node to others.
	IntraNode, InterNode Link
	// OverlapHalos computes what needs no other rank while halos are under way, and
	// OverlapGradients sums gradients while the backward pass goes on.
	OverlapHalos, OverlapGradients bool
}

// Link says how long a message takes: Alpha, and its bytes at Rate.
type Link struct {
	Alpha cluster.Time
	Rate  cluster.Rate
}

// seconds makes a time of a number of seconds.
func seconds(s float64) cluster.Time { return cluster.Time(math.Round(s * float64(cluster.Second))) }

// time is that of so many messages with so many bytes in all, by a link that several
// ranks share.
func (l Link) time(messages, bytes, sharing float64) float64 {
	return messages*l.Alpha.Seconds() + bytes*sharing/float64(l.Rate)
}

// perNode is the number of ranks that share a node.
func (m *Machine) perNode() int { return max(1, m.PerNode) }

// group is ranks that act together: those that stand alike on all other axes.
type group struct {
	ranks     int
	stride    int // between neighbours
	intraNode bool
}

// link is what a group's messages go over, and how many ranks of a node share it: all of
// them if every rank sends to a far one, or in a ring one for each group.
func (m *Machine) link(g group, ring bool) (l Link, sharing float64) {
	switch {
	case g.intraNode:
		return m.IntraNode, 1
	case ring:
		return m.InterNode, float64(min(m.perNode(), g.stride))
	}
	return m.InterNode, float64(m.perNode())
}

// allReduce is the time to add up vectors of so many float32 over the ranks of a group by
// the algorithm that package comm takes, and the bytes that a rank sends:
//
//	ring      2(p−1)·α + 2(p−1)/p·βn
//	halving   2·log₂p·α + 2(p−1)/p·βn
//	doubling  log₂p·(α + βn), with 2(α + βn) more where p is no power of two
//
// Steps between ranks of one node go by its own link.
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
	step := func(distance int, bytes float64) { // to a rank so far away in the group
		near := g
		near.intraNode = g.intraNode || m.perNode()%(2*distance*g.stride) == 0
		l, sharing := m.link(near, false)
		t += l.time(1, bytes, sharing)
		sent += bytes
	}
	part := n
	for d := 1; 2*d <= g.ranks; d *= 2 {
		if part /= 2; a == comm.Halving { // there and back
			step(d, part)
			step(d, part)
		} else {
			step(d, n)
		}
	}
	if a == comm.Doubling && g.ranks&(g.ranks-1) != 0 { // the ranks beyond are folded onto others
		step(1, n)
		step(1, n)
	}
	return seconds(t), int64(sent)
}

// allGather is the time until all ranks of a group have all of so many float32, by a ring:
// (p−1)·α + (p−1)/p·βn.
func (m *Machine) allGather(g group, values int64) (cluster.Time, int64) {
	if g.ranks < 2 || values == 0 {
		return 0, 0
	}
	p := float64(g.ranks)
	sent := (p - 1) / p * 4 * float64(values)
	l, sharing := m.link(g, true)
	return seconds(l.time(p-1, sent, sharing)), int64(sent)
}

// computeTime is the time of a share of some work that reads a share of the filters.
func (m *Machine) computeTime(all []Work, share, filters float64) cluster.Time {
	var sum float64
	for _, w := range all {
		rate, known := m.FLOPs, false
		if w.Conv != nil && m.ConvRate != nil {
			if r, ok := m.ConvRate(*w.Conv); ok {
				rate, known = r, true
			}
		}
		t := float64(w.FLOPs) * share / rate
		if !known { // a measured time has its bytes in it
			t = max(t, (float64(w.Bytes)*share+float64(w.Fixed)*filters)/m.Bytes)
		}
		sum += t
	}
	return seconds(sum)
}
