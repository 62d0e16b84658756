package cluster

// Kind is the activity in a span of time.
type Kind int

// The kinds of spans.
const (
	Compute Kind = iota // a rank computed
	Message             // a message was in transit, from Send to its arrival
	Waiting             // a rank waited for a message to arrive or to leave
)

// String returns the name of the kind.
func (k Kind) String() string { return [...]string{"compute", "message", "wait"}[k] }

// Span is an activity of a rank.
type Span struct {
	Kind       Kind
	Rank       int   // rank that computed, sent or waited
	Peer       int   // the other rank; −1 for Compute
	Tag        int   // as the transport gets it, group included
	Bytes      int64 // of a message
	Start, End Time
}

// record adds a span to the trace if tracing is on.
func (w *world) record(s Span) {
	if w.tracing {
		w.result.Trace = append(w.result.Trace, s)
	}
}
