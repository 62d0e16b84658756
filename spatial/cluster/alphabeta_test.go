package cluster

// AlphaBeta is Hockney's model: a message of m bytes takes α + βm, with β = 1/Rate. A
// rank sends one message and receives one at a time; the others queue.
//
// Source: Hockney 1994, doi:10.1016/S0167-8191(06)80021-9.
type AlphaBeta struct {
	Alpha Time
	Rate  Rate
}

func (n AlphaBeta) open(c *clock, ranks int) (*wire, error) {
	if err := n.Rate.check(); err != nil {
		return nil, err
	}
	if err := checkTimes(n.Alpha); err != nil {
		return nil, err
	}
	out, in := make([]Time, ranks), make([]Time, ranks) // when they are free
	return &wire{carry: func(m *message, from, to int) {
		end := max(c.now, out[from], in[to]) + n.Alpha + n.Rate.time(m.bytes)
		out[from], in[to] = end, end
		c.at(end, m.deliver)
	}}, nil
}

// deliver is leave and arrive at once.
func (m *message) deliver() {
	m.leave()
	m.arrive()
}
