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
