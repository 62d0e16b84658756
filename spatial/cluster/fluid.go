package cluster

import "math"

// Fluid models messages as flows that share the links of a topology. Each flow has
// its max-min fair rate, which changes when flows start and end. An isolated
// message of m bytes takes
//
//	α + m / min(rate of its links) + Σ delay of its links
//
// A flow occupies all links of its path at the same time, as a message of many
// packets does. Single small packets, which queue at one link after the other, are
// modelled less accurately.
//
// Cost: each start or end of a flow recomputes the rates of all flows connected to
// it by shared links.
// Source: Bertsekas and Gallager 1992, Data Networks, section 6.5.2 (max-min
// fairness).
type Fluid struct{ Wiring }

// open creates the network without flows.
func (n Fluid) open(c *clock, ranks int) (*wire, error) {
	if err := n.check(ranks); err != nil {
		return nil, err
	}
	s := &flowNetwork{clock: c, links: make([]sharedLink, len(n.Topology.Links)), bytes: make([]int64, len(n.Topology.Links))}
	for i, l := range n.Topology.Links {
		s.links[i].rate = float64(l.Rate)
	}
	return &wire{bytes: s.bytes, carry: func(m *message, from, to int) {
		f := &flow{m: m, path: n.route(from, to), left: float64(m.bytes)}
		for _, l := range f.path {
			f.delay += n.Topology.Links[l].Delay
		}
		c.at(c.now+n.Alpha, func() { s.begin(f) })
	}}, nil
}

// flow is a message in transit.
type flow struct {
	m        *message
	path     []int
	delay    Time
	left     float64 // bytes left at time since
	rate     float64 // bytes per second from then on
	since    Time
	turn     int     // number of rate changes, to recognise outdated end events
	searchID int     // last search that visited it
	share    float64 // rate found by fill; negative while unknown
}

// sharedLink is a link with its flows, in the order of their start.
type sharedLink struct {
	rate     float64
	flows    []*flow
	searchID int     // last search that visited it
	spare    float64 // rate that fill has not assigned yet
	open     int     // flows without a rate in fill
}

// flowNetwork is the state of a Fluid network.
type flowNetwork struct {
	*clock
	links    []sharedLink
	bytes    []int64
	changed  []int // links with new or ended flows since the last settle
	searchID int   // number of the current search
}

// begin adds a flow to its links.
func (s *flowNetwork) begin(f *flow) {
	f.since = s.now
	for _, l := range f.path {
		s.links[l].flows = append(s.links[l].flows, f)
		s.bytes[l] += f.m.bytes
	}
	s.change(f)
}

// end removes a flow from its links. It ignores an end event that was scheduled
// before the last change of the flow's rate.
func (s *flowNetwork) end(f *flow, turn int) {
	if turn != f.turn {
		return
	}
	for _, l := range f.path {
		flows := s.links[l].flows
		s.links[l].flows = remove(flows, indexOf(flows, func(g *flow) bool { return g == f }))
	}
	s.change(f)
	s.at(s.now+f.delay, f.m.arrive)
	f.m.leave()
}

// change schedules one update of the rates after all flows that start or end at
// this time.
func (s *flowNetwork) change(f *flow) {
	if len(s.changed) == 0 {
		s.atEnd(s.settle)
	}
	s.changed = append(s.changed, f.path...)
}

// settle recomputes the rates in the connected components of links with changed
// flows, by a breadth-first search over links and flows. It reschedules the ends of
// flows whose rate changes; their earlier end events become outdated.
func (s *flowNetwork) settle() {
	s.searchID++
	var links []int
	var flows []*flow
	reach := func(l int) {
		if s.links[l].searchID != s.searchID {
			s.links[l].searchID = s.searchID
			links = append(links, l)
		}
	}
	for _, l := range s.changed {
		reach(l)
	}
	s.changed = s.changed[:0]
	for i := 0; i < len(links); i++ {
		for _, f := range s.links[links[i]].flows {
			if f.searchID != s.searchID {
				f.searchID = s.searchID
				flows = append(flows, f)
				for _, l := range f.path {
					reach(l)
				}
			}
		}
	}
	s.fill(links, flows)
	for _, f := range flows {
		if f.share == f.rate {
			continue
		}
		f.left = max(0, f.left-f.rate*(s.now-f.since).Seconds())
		f.rate, f.since = f.share, s.now
		f.turn++
		turn := f.turn
		s.at(s.now+Time(math.Round(f.left*float64(Second)/f.rate)), func() { s.end(f, turn) })
	}
}

// fill computes max-min fair rates by progressive filling. In each round the
// smallest share per flow over all links,
//
//	min over links of spare/open
//
// becomes the rate of all flows on the links that attain it. Their rate is
// subtracted from the other links of their paths.
//
// Cost: O(rounds · links + Σ path lengths), at most one round per link.
// Source: Bertsekas and Gallager 1992, Data Networks, section 6.5.2.
func (s *flowNetwork) fill(links []int, flows []*flow) {
	for _, l := range links {
		s.links[l].spare, s.links[l].open = s.links[l].rate, len(s.links[l].flows)
	}
	for _, f := range flows {
		f.share = -1
	}
	for waiting := len(flows); waiting > 0; {
		least := math.Inf(1)
		busy := links[:0]
		for _, l := range links {
			if k := &s.links[l]; k.open > 0 {
				busy = append(busy, l)
				least = min(least, k.spare/float64(k.open))
			}
		}
		links = busy
		for _, l := range links {
			k := &s.links[l]
			if k.open == 0 || k.spare/float64(k.open) > least {
				continue
			}
			for _, f := range k.flows {
				if f.share >= 0 {
					continue
				}
				f.share = least
				waiting--
				for _, other := range f.path {
					s.links[other].spare -= least
					s.links[other].open--
				}
			}
		}
	}
}
