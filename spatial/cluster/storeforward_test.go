package cluster

// StoreAndForward sends packets over the links of a topology. A packet of m bytes
// keeps a link busy for m/Rate and is at the next one Delay later; there it queues
// behind those that came first. Over h idle equal links a message of one packet takes
// α + h·(Delay + m/Rate).
type StoreAndForward struct {
	Wiring
	Packet int64 // bytes at most; 0 sends every message as one packet
}

func (n StoreAndForward) open(c *clock, ranks int) (*wire, error) {
	if err := n.check(ranks); err != nil {
		return nil, err
	}
	if n.Packet < 0 {
		return nil, usage("packets of fewer than 0 bytes", "", "give 0 for whole messages")
	}
	s := &forwarding{clock: c, links: n.Topology.Links, free: make([]Time, len(n.Topology.Links)), bytes: make([]int64, len(n.Topology.Links))}
	return &wire{bytes: s.bytes, carry: func(m *message, from, to int) {
		t := &train{s: s, m: m, path: n.route(from, to), left: m.bytes, packet: n.Packet}
		if t.packet == 0 {
			t.packet = m.bytes
		}
		c.at(c.now+n.Alpha, t.depart)
	}}, nil
}

type forwarding struct {
	*clock
	links []Link
	free  []Time // when each link is
	bytes []int64
}

// pass transmits bytes on a link when it is free; it returns the end of the
// transmission.
func (s *forwarding) pass(link int, bytes int64) Time {
	s.free[link] = max(s.now, s.free[link]) + s.links[link].Rate.time(bytes)
	s.bytes[link] += bytes
	return s.free[link]
}

// train is the packets of a message.
type train struct {
	s            *forwarding
	m            *message
	path         []int
	left, packet int64 // bytes that have not departed, and of a packet
	arrived      int64
}

// depart transmits the next packet on the first link, and schedules the one after
// it.
func (t *train) depart() {
	size := min(t.left, t.packet)
	t.left -= size
	on := t.s.pass(t.path[0], size)
	t.forward(size, 1, on)
	if t.left > 0 {
		t.s.at(on, t.depart)
	} else {
		t.s.at(on, t.m.leave)
	}
}

// forward transmits a packet that was on its hop-th link on the next one.
func (t *train) forward(size int64, hop int, on Time) {
	at := on + t.s.links[t.path[hop-1]].Delay
	if hop == len(t.path) {
		t.s.at(at, func() {
			if t.arrived += size; t.arrived == t.m.bytes {
				t.m.arrive()
			}
		})
		return
	}
	t.s.at(at, func() { t.forward(size, hop+1, t.s.pass(t.path[hop], size)) })
}
