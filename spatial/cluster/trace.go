package cluster

// Kind is what happened in a span of time.
type Kind int

// The kinds of spans.
const (
	Compute Kind = iota // a rank computed
	Message             // a message was on its way, from Send to its arrival
	Waiting             // a rank waited for a message to arrive or to leave
)

func (k Kind) String() string { return [...]string{"compute", "message", "wait"}[k] }

// Span is something that took time.
type Span struct {
	Kind       Kind
	Rank       int   // who computed, sent or waited
	Peer       int   // the rank at the other end; −1 for Compute
	Tag        int   // as the transport sees it, with the group
	Bytes      int64 // of a message
	Start, End Time
}

func (w *world) record(s Span) {
	if w.tracing {
		w.result.Trace = append(w.result.Trace, s)
	}
}
