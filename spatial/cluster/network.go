package cluster

import "fmt"

// Network says how long messages take: LogGP, Fluid or Nodes of two of them.
type Network interface {
	// open makes a network at rest for one run.
	open(c *clock, ranks int) (*wire, error)
}

// wire takes messages from their senders to their receivers.
type wire struct {
	// carry starts a message now, between two places in the network: ranks, unless the
	// network is one of several (see Nodes). It sees to it that the message leaves
	// and arrives.
	carry    func(m *message, from, to int)
	overhead Time    // of a rank's own time, for each message that it sends or receives
	bytes    []int64 // that passed, by link
}

// Wiring is a topology with ranks on its hosts.
type Wiring struct {
	Topology *Topology
	// Alpha is what a message takes before its first byte enters the network.
	Alpha Time
	// Hosts says where each rank runs; nil puts rank i on host i.
	Hosts []int
}

// check refuses wirings that have no place for each rank.
func (g Wiring) check(ranks int) error {
	if g.Topology == nil {
		return usage("a network without a topology", "messages have no way to go", "make one, with Parse or by kind")
	}
	if ranks > g.Topology.Hosts {
		return usage(fmt.Sprintf("%d ranks on %s", ranks, g.Topology.Name), fmt.Sprintf("it has %d hosts", g.Topology.Hosts), "choose a larger network, or fewer ranks")
	}
	if err := checkTimes(g.Alpha); err != nil {
		return err
	}
	if g.Hosts == nil {
		return nil
	}
	wrong := func(why string) error {
		return usage(fmt.Sprintf("no place for %d ranks on %s", ranks, g.Topology.Name), why, "give each rank a host of its own")
	}
	if len(g.Hosts) != ranks {
		return wrong(fmt.Sprintf("%d hosts are given", len(g.Hosts)))
	}
	taken := make([]bool, g.Topology.Hosts)
	for rank, h := range g.Hosts {
		if h < 0 || h >= len(taken) || taken[h] {
			return wrong(fmt.Sprintf("host %d of rank %d is taken, or there is none", h, rank))
		}
		taken[h] = true
	}
	return nil
}

// route is the links between two ranks.
func (g Wiring) route(from, to int) []int {
	if g.Hosts != nil {
		from, to = g.Hosts[from], g.Hosts[to]
	}
	return g.Topology.Route(from, to)
}

// checkTimes refuses messages that arrive before they are sent.
func checkTimes(times ...Time) error {
	for _, t := range times {
		if t < 0 {
			return usage(fmt.Sprintf("a network that takes %v", t), "time does not go back", "give 0 or more")
		}
	}
	return nil
}
