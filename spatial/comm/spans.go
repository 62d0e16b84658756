package comm

import (
	"sync"
	"sync/atomic"
	"time"
)

// SpanKind is what a rank does in a Span.
type SpanKind string

// The kinds.
const (
	WaitSpan    SpanKind = "wait"    // the rank waits for messages or a task
	SendSpan    SpanKind = "send"    // a message from its start to the end of the wait for it
	ReceiveSpan SpanKind = "receive" // the same for a message to the rank
	TaskSpan    SpanKind = "task"    // a task runs
)

// Span is an interval in which a rank communicates.
type Span struct {
	Kind       SpanKind
	Peer       int   // rank in the job; -1 for waits and tasks
	Bytes      int64 // of a message; that a task sends in its group
	Begin, End time.Time
}

// spanLog collects spans of a rank and its tasks.
type spanLog struct {
	on  atomic.Bool
	mu  sync.Mutex
	all []Span
}

// add appends a span that ends now.
func (l *spanLog) add(s Span) {
	s.End = time.Now()
	l.mu.Lock()
	l.all = append(l.all, s)
	l.mu.Unlock()
}

// Record starts to record spans, in the groups in which the clock counts and in their tasks. Messages within tasks are not recorded.
func (k *WaitClock) Record() { k.spans.on.Store(true) }

// Spans ends the record and returns it. No task may be running.
func (k *WaitClock) Spans() []Span {
	k.spans.on.Store(false)
	k.spans.mu.Lock()
	defer k.spans.mu.Unlock()
	all := k.spans.all
	k.spans.all = nil
	return all
}

// isRecording reports whether spans are recorded; a nil clock records none.
func (k *WaitClock) isRecording() bool { return k != nil && k.spans.on.Load() }
