package search

import (
	"math/bits"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// DataSum returns the time of an all-reduce of values over the data ranks of a mesh, and the bytes that a rank sends.
func (m Machine) DataSum(mesh spatial.Mesh, values int64) (cluster.Time, int64) {
	return m.allReduce(newPricer(&m, Optimiser{}, mesh).over([]string{spatial.DataAxis}), values)
}

// StridedSum returns the time of an all-reduce of values over ranks with a stride between them, and the bytes that a rank sends. The
// ranks between do so at the same time.
func (m Machine) StridedSum(ranks, stride int, values int64) (cluster.Time, int64) {
	return m.allReduce(group{ranks: ranks, stride: stride, intraNode: ranks*stride <= m.perNode()}, values)
}

// UnitsExchange returns the time of an all-reduce of values among members of a number of units, of which the first rank takes part
// and then passes the result to the others of its unit (package partial), and the bytes that this rank sends. A unit is a number of
// consecutive ranks. Members are as far apart as any.
//
//	t = all-reduce of the members + ⌈log₂ ranks⌉·(α + βn)
func (m Machine) UnitsExchange(units, ranks, members int, values int64) (cluster.Time, int64) {
	leaders := m
	leaders.PerNode = max(1, m.perNode()/ranks)
	t, sent := leaders.allReduce(group{ranks: members, stride: max(1, units/members), intraNode: units*ranks <= m.perNode()}, values)
	link := m.InterNode
	if ranks <= m.perNode() {
		link = m.IntraNode
	}
	rounds := int64(bits.Len(uint(ranks - 1)))
	return t + seconds(float64(rounds)*link.time(1, 4*float64(values), 1)), sent + rounds*4*values
}

// Notices returns the time until the units know that an exchange has started: small messages, one after the other, along the
// dissemination graph or a binomial tree of their first ranks.
func (m Machine) Notices(units, ranks int) cluster.Time {
	link := m.InterNode
	if units*ranks <= m.perNode() {
		link = m.IntraNode
	}
	return cluster.Time(bits.Len(uint(max(0, units-1)))) * link.Alpha
}

// Transfer is messages of one rank to Count consecutive ranks from First on, without itself, each of a number of bytes.
type Transfer struct {
	From, First, Count int
	Bytes              int64
}

// Transfers returns the time of messages that are in transit at once, and the bytes that the busiest rank sends. Messages within a
// node share the link of their rank, those between nodes the link of their node:
//
//	t = max over links of α + Σ bytes/rate
func (m *Machine) Transfers(all []Transfer) (t cluster.Time, most int64) {
	within, between, sent := map[int]int64{}, map[int]int64{}, map[int]int64{} // bytes, by rank, node and rank
	for _, x := range all {
		node := m.Node(x.From)
		near := max(0, min(x.First+x.Count, (node+1)*m.perNode())-max(x.First, node*m.perNode()))
		far := x.Count - near
		if x.From >= x.First && x.From < x.First+x.Count {
			near--
		}
		within[x.From] += int64(near) * x.Bytes
		between[node] += int64(far) * x.Bytes
		sent[x.From] += int64(near+far) * x.Bytes
		most = max(most, sent[x.From])
	}
	for _, links := range []struct {
		Link
		bytes map[int]int64
	}{{m.IntraNode, within}, {m.InterNode, between}} {
		for _, n := range links.bytes {
			if n > 0 {
				t = max(t, seconds(links.time(1, float64(n), 1)))
			}
		}
	}
	return t, most
}
