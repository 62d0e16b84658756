package sbp

// Cost is what moving parts of tensors between ranks costs.
type Cost struct {
	Total  int64 // bytes that all ranks send to others
	Sent   int64 // bytes that the busiest rank sends, step by step
	Rounds int   // messages that wait for each other
	// Summands counts the steps that make a whole tensor partial. They move nothing.
	Summands int
}

// Add is the cost of one after the other.
func (c Cost) Add(d Cost) Cost {
	return Cost{c.Total + d.Total, c.Sent + d.Sent, c.Rounds + d.Rounds, c.Summands + d.Summands}
}

// Link says how long ranks of a mesh take to exchange messages: Alpha for each round
// and Beta for each byte that a rank sends.
type Link struct {
	Alpha float64 // s
	Beta  float64 // s/byte
	// Penalty, in s, keeps a search from making whole tensors partial where that is
	// of no use.
	Penalty float64
}

// Time is α·rounds + β·bytes sent per rank, in seconds.
func (l Link) Time(c Cost) float64 {
	return l.Alpha*float64(c.Rounds) + l.Beta*float64(c.Sent) + l.Penalty*float64(c.Summands)
}
