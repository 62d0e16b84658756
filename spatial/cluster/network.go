package cluster

import "fmt"

// Network is a model of message times: LogGP, Fluid, or Nodes of two of them. Its
// method is unexported, because a model works on the event queue of a run.
type Network interface {
	open(c *clock, ranks int) (*wire, error) // open creates the network for one run, without messages.
}

// wire is a network of one run.
type wire struct {
	// carry starts the transfer of a message now between two endpoints: ranks, or
	// nodes if the network connects nodes (see Nodes). It calls the message's leave
	// and arrive.
	carry    func(m *message, from, to int)
	overhead Time    // time of a rank for each message that it sends or receives
	bytes    []int64 // transferred bytes, by link
}

// Wiring is a topology with an assignment of ranks to hosts.
type Wiring struct {
	Topology *Topology
	Alpha    Time  // latency before the first byte of a message enters the network
	Hosts    []int // host of each rank; nil assigns rank i to host i
}

// check returns an error unless every rank has a host of its own.
func (g Wiring) check(ranks int) error {
	if g.Topology == nil {
		return usage("the network has no topology", "messages need a path", "create one with Parse or a constructor")
	}
	if ranks > g.Topology.Hosts {
		return usage(fmt.Sprintf("%d ranks do not fit on %s", ranks, g.Topology.Name), fmt.Sprintf("it has %d hosts", g.Topology.Hosts), "choose a larger network or fewer ranks")
	}
	if err := checkTimes(g.Alpha); err != nil {
		return err
	}
	if g.Hosts == nil {
		return nil
	}
	wrong := func(why string) error {
		return usage(fmt.Sprintf("invalid assignment of %d ranks to %s", ranks, g.Topology.Name), why, "assign a separate host to each rank")
	}
	if len(g.Hosts) != ranks {
		return wrong(fmt.Sprintf("%d hosts are listed", len(g.Hosts)))
	}
	taken := make([]bool, g.Topology.Hosts)
	for rank, h := range g.Hosts {
		if h < 0 || h >= len(taken) || taken[h] {
			return wrong(fmt.Sprintf("host %d of rank %d does not exist or is used twice", h, rank))
		}
		taken[h] = true
	}
	return nil
}

// route returns the links between two ranks.
func (g Wiring) route(from, to int) []int {
	if g.Hosts != nil {
		from, to = g.Hosts[from], g.Hosts[to]
	}
	return g.Topology.Route(from, to)
}

// checkTimes returns an error for a negative time.
func checkTimes(times ...Time) error {
	for _, t := range times {
		if t < 0 {
			return usage(fmt.Sprintf("negative message time %v", t), "a message cannot arrive before it is sent", "set 0 or more")
		}
	}
	return nil
}
