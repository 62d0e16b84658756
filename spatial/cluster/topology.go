package cluster

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Topology is a network: hosts, switches, links, and one route between every two
// hosts.
type Topology struct {
	Name     string // in the syntax of Parse
	Hosts    int    // nodes 0 to Hosts−1; each runs one rank
	Nodes    int    // hosts, followed by the switching points that links connect
	Switches int    // physical devices; small networks may share one
	Links    []Link // the two directions of a cable are adjacent
	router   router
}

// Link is one direction of a cable.
type Link struct {
	From, To int // nodes
	Cable
}

// Cable has the properties of a link.
type Cable struct {
	Rate  Rate // in each direction
	Delay Time // propagation of a bit, the following switch included
}

// Typical cables. The delays are assumptions: a switch and some metres of fibre, or
// the network stack of an operating system.
var (
	FastCable     = Cable{Rate: 12_500_000_000, Delay: 250 * Nanosecond} // 100 Gbit/s
	EthernetCable = Cable{Rate: 1_250_000_000, Delay: 5 * Microsecond}   // 10 Gbit/s
)

// router computes routes.
type router interface {
	route(path []int, from, to int) []int // route appends the links from one host to another.
}

// Route returns the links that a message takes, in order; none from a host to
// itself.
func (t *Topology) Route(from, to int) []int { return t.route(nil, from, to) }

// route appends the links of Route to path.
func (t *Topology) route(path []int, from, to int) []int {
	if from == to {
		return path
	}
	return t.router.route(path, from, to)
}

// Hops returns the number of links between two different hosts: the maximum, and
// the mean over all ordered pairs.
//
// Cost: O(Hosts²) routes.
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

// maxHosts limits the memory of topologies that users request.
const maxHosts = 1 << 17

// newTopology returns a network of hosts without links.
func newTopology(name string, hosts int, c Cable) (*Topology, error) {
	switch {
	case hosts < 1 || hosts > maxHosts:
		return nil, usage(fmt.Sprintf("invalid network %s", name), fmt.Sprintf("%d hosts, want 1 to %d", hosts, maxHosts), "choose other numbers")
	case c.Delay < 0:
		return nil, usage(fmt.Sprintf("invalid delay of %v", c.Delay), "a delay cannot be negative", "give 0 or more")
	}
	if err := c.Rate.check(); err != nil {
		return nil, err
	}
	return &Topology{Name: name, Hosts: hosts, Nodes: hosts}, nil
}

// addSwitchPoints adds n switching points and returns their node numbers.
func (t *Topology) addSwitchPoints(n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = t.Nodes
		t.Nodes++
	}
	return nodes
}

// join adds a cable between two nodes. It returns the link from a to b; the reverse
// link follows.
func (t *Topology) join(a, b int, c Cable) int {
	t.Links = append(t.Links, Link{a, b, c}, Link{b, a, c})
	return len(t.Links) - 2
}

// back returns the reverse direction of a link.
func back(link int) int { return link ^ 1 }

// hashPair hashes a pair of hosts to select one of several equal paths, like ECMP.
// It is the finaliser of SplitMix64.
//
// Source: Steele, Lea and Flood 2014, doi:10.1145/2714064.2660195.
func hashPair(from, to int) uint64 {
	z := uint64(from)<<32 | uint64(to)
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// usage returns the error of an invalid network.
func usage(what, why, fix string) error {
	return &exit.Error{Code: exit.Usage, What: what, Why: why, Fix: fix}
}
