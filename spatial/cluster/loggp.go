package cluster

// LogGP is the model of that name with G = 1/Rate. A message of m bytes takes L +
// 2o + (m−1)G. It occupies the sender's port for o + (m−1)G, and the next message
// starts at least g after it. Sender and receiver each spend o of their own time.
//
// Source: Alexandrov, Ionescu, Schauser and Scheiman 1997,
// doi:10.1006/jpdc.1997.1346.
type LogGP struct {
	Latency  Time // L
	Overhead Time // o
	Gap      Time // g
	Rate     Rate
}

// open creates the network with all ports idle.
func (n LogGP) open(c *clock, ranks int) (*wire, error) {
	if err := n.Rate.check(); err != nil {
		return nil, err
	}
	if err := checkTimes(n.Latency, n.Overhead, n.Gap); err != nil {
		return nil, err
	}
	free := make([]Time, ranks)
	return &wire{overhead: n.Overhead, carry: func(m *message, from, _ int) {
		begin := max(c.now-n.Overhead, free[from]) // the sender has already spent o
		left := begin + n.Overhead + n.Rate.time(max(0, m.bytes-1))
		free[from] = max(left, begin+n.Gap)
		c.at(left, m.leave)
		c.at(left+n.Latency, m.arrive)
	}}, nil
}
