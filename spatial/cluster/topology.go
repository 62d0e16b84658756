package cluster

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Topology is a network: hosts, switches, the links between them, and one route from
// every host to every other.
type Topology struct {
	Name     string // as Parse reads it
	Hosts    int    // nodes from 0 to before Hosts run a rank each
	Nodes    int    // hosts, and behind them the points where links meet in switches
	Switches int    // devices to buy; small networks may share one
	Links    []Link // a cable is two of them, one behind the other
	router   router
}

// Link is one direction of a cable.
type Link struct {
	From, To int // nodes
	Cable
}

// Cable is what a link can do.
type Cable struct {
	Rate  Rate // each way
	Delay Time // of a bit, the switch behind it included
}

// Cables of a kind; other rates and delays give other networks. The delays are
// assumptions: a switch and some metres of fibre, and a kernel's path to a card.
var (
	FastCable     = Cable{Rate: 12_500_000_000, Delay: 250 * Nanosecond} // 100 Gbit/s
	EthernetCable = Cable{Rate: 1_250_000_000, Delay: 5 * Microsecond}   // 10 Gbit/s
)

// router finds ways.
type router interface {
	// route appends the links from a host to another one.
	route(path []int, from, to int) []int
}

// Route is the links that a message takes, in order; none from a host to itself.
func (t *Topology) Route(from, to int) []int { return t.route(nil, from, to) }

func (t *Topology) route(path []int, from, to int) []int {
	if from == to {
		return path
	}
	return t.router.route(path, from, to)
}

// Hops is the number of links between two different hosts: the most, and the mean over
// all ordered pairs.
func (t *Topology) Hops() (most int, mean float64) {
	var path []int
	total := 0
	for from := range t.Hosts {
		for to := range t.Hosts {
			path = t.route(path[:0], from, to)
			most, total = max(most, len(path)), total+len(path)
		}
	}
	return most, float64(total) / float64(max(1, t.Hosts*(t.Hosts-1)))
}

// maxHosts keeps what a text asks for within memory.
const maxHosts = 1 << 17

// newTopology is a network of hosts that are not joined yet.
func newTopology(name string, hosts int, c Cable) (*Topology, error) {
	switch {
	case hosts < 1 || hosts > maxHosts:
		return nil, usage(fmt.Sprintf("no network %s", name), fmt.Sprintf("it has %d hosts, possible are 1 to %d", hosts, maxHosts), "choose other numbers")
	case c.Delay < 0:
		return nil, usage(fmt.Sprintf("a delay of %v", c.Delay), "a bit cannot arrive before it leaves", "give 0 or more")
	}
	if err := c.Rate.check(); err != nil {
		return nil, err
	}
	return &Topology{Name: name, Hosts: hosts, Nodes: hosts}, nil
}

// addSwitchPoints adds n points where links meet.
func (t *Topology) addSwitchPoints(n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = t.Nodes
		t.Nodes++
	}
	return nodes
}

// join lays a cable, and gives its link from a to b; back is the one that follows.
func (t *Topology) join(a, b int, c Cable) int {
	t.Links = append(t.Links, Link{a, b, c}, Link{b, a, c})
	return len(t.Links) - 2
}

// back is the other direction of a cable.
func back(link int) int { return link ^ 1 }

// hashPair draws a number from a pair of hosts: which of many equal ways it takes. The
// finalizer of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195).
func hashPair(from, to int) uint64 {
	z := uint64(from)<<32 | uint64(to)
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// usage is the error of a network that cannot be.
func usage(what, why, fix string) error {
	return &exit.Error{Code: exit.Usage, What: what, Why: why, Fix: fix}
}
