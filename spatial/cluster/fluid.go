package cluster

import "math"

// Fluid sends messages as flows that share the links of a topology: each gets its
// max-min fair rate, which changes when flows begin and end. A message of m bytes
// that meets no other takes α + m/Rate of its slowest link + the delays of all.
type Fluid struct{ Wiring }

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

// flow is a message that is flowing.
type flow struct {
	m        *message
	path     []int
	delay    Time
	left     float64 // bytes, at the time since
	rate     float64 // bytes a second from then on
	since    Time
	turn     int     // counts the changes of its rate
	searchID int     // of the search that found it
	share    float64 // that fill has found; below 0 before
}

// sharedLink is a link with the flows on it, as they came.
type sharedLink struct {
	rate     float64
	flows    []*flow
	searchID int     // of the search that found it
	spare    float64 // rate that fill has not given out yet
	open     int     // flows that fill has not given a rate yet
}

type flowNetwork struct {
	*clock
	links    []sharedLink
	bytes    []int64
	changed  []int // links, since the last settling
	searchID int
}

// begin adds a flow.
func (s *flowNetwork) begin(f *flow) {
	f.since = s.now
	for _, l := range f.path {
		s.links[l].flows = append(s.links[l].flows, f)
		s.bytes[l] += f.m.bytes
	}
	s.change(f)
}

// end takes a flow off its links, unless its rate has changed since it was
// to end now.
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

// change notes that the rates around a flow are to be found again, once for all
// flows that begin or end at this moment.
func (s *flowNetwork) change(f *flow) {
	if len(s.changed) == 0 {
		s.atEnd(s.settle)
	}
	s.changed = append(s.changed, f.path...)
}

// settle finds the rates of all flows that share links with those that changed, also
// by way of others.
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

// fill gives flows their max-min fair shares by progressive filling: the link that has
// least for each of its flows settles theirs, and so on with what is left.
//
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
