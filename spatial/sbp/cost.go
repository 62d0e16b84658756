package sbp

// Cost is the cost of communication.
type Cost struct {
	Total  int64 // bytes that all ranks send to others
	Sent   int64 // bytes that the busiest rank sends, summed over steps
	Rounds int   // number of messages one after the other
	// Summands counts conversions of a replicated or split tensor to P, which move
	// nothing.
	Summands int
}

// Add returns the cost of two conversions one after the other.
func (c Cost) Add(d Cost) Cost {
	return Cost{c.Total + d.Total, c.Sent + d.Sent, c.Rounds + d.Rounds, c.Summands + d.Summands}
}

// Link has the parameters of communication times: Alpha per round, Beta per byte
// that a rank sends.
type Link struct {
	Alpha float64 // s
	Beta  float64 // s/byte
	// Penalty per conversion to P, in s. It keeps a search from useless conversions
	// that cost nothing.
	Penalty float64
}

// Time returns α·rounds + β·(bytes sent per rank) + penalties, in seconds.
//
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521 (the α–β
// model of collectives).
func (l Link) Time(c Cost) float64 {
	return l.Alpha*float64(c.Rounds) + l.Beta*float64(c.Sent) + l.Penalty*float64(c.Summands)
}
