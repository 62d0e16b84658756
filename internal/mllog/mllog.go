// Package mllog writes and reads logs of trainings to a target quality in the
// format of MLPerf HPC: one line per event, ":::MLLOG" followed by a JSON object.
// Package mllogtest checks a log against the rules.
//
// Source: github.com/mlcommons/logging, its rules of HPC 3.0, and
// github.com/mlcommons/training_policies, hpc_training_rules.adoc.
package mllog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Token starts each line.
const Token = ":::MLLOG "

// Types of events.
const (
	point = "POINT_IN_TIME"
	start = "INTERVAL_START"
	end   = "INTERVAL_END"
)

// Keys with a meaning in the rules.
const (
	RunStart     = "run_start"
	RunStop      = "run_stop"
	EvalAccuracy = "eval_accuracy"
	Target       = "quality_target"
)

// Values of status in the metadata of RunStop.
const (
	Success = "success" // the target quality was reached
	Aborted = "aborted"
)

// EpochNum is the metadata key of the epoch number, from 1.
const EpochNum = "epoch_num"

// Metadata holds further facts about an event.
type Metadata map[string]any

// Event is one line of a log.
type Event struct {
	Namespace string   `json:"namespace"`
	TimeMS    int64    `json:"time_ms"` // milliseconds since 1970
	Type      string   `json:"event_type"`
	Key       string   `json:"key"`
	Value     any      `json:"value"`
	Metadata  Metadata `json:"metadata"`
}

// Log writes events, each with one write. A nil Log drops them. After the first
// error all events are dropped.
type Log struct {
	w     io.Writer
	now   func() int64 // milliseconds; never decreases
	ended bool
	err   error
}

// New returns a Log. Times start at the system clock and follow a monotonic clock.
func New(w io.Writer) *Log {
	began := time.Now()
	return &Log{w: w, now: func() int64 { return began.UnixMilli() + time.Since(began).Milliseconds() }}
}

// Point logs an event at a point in time.
func (l *Log) Point(key string, value any, m Metadata) { l.event(point, key, value, m) }

// Start logs the start of an interval, with key name_start.
func (l *Log) Start(name string, m Metadata) { l.event(start, name+"_start", nil, m) }

// Stop logs the end of an interval, with key name_stop.
func (l *Log) Stop(name string, m Metadata) { l.event(end, name+"_stop", nil, m) }

// End logs the end of the run. Later events are dropped.
func (l *Log) End(status string, m Metadata) {
	if l == nil {
		return
	}
	all := Metadata{"status": status}
	for k, v := range m {
		all[k] = v
	}
	l.event(end, RunStop, nil, all)
	l.ended = true
}

// Ended reports whether the end of the run was logged; true for nil.
func (l *Log) Ended() bool { return l == nil || l.ended }

// Err returns the first error.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	return l.err
}

// event writes one line.
func (l *Log) event(kind, key string, value any, m Metadata) {
	if l == nil || l.ended || l.err != nil {
		return
	}
	if m == nil {
		m = Metadata{}
	}
	text, err := json.Marshal(Event{TimeMS: l.now(), Type: kind, Key: key, Value: value, Metadata: m})
	if err == nil {
		_, err = l.w.Write([]byte(Token + string(text) + "\n"))
	}
	l.err = err
}

// Read parses the events of a log; other lines are skipped.
//
// Errors: lines that start as an event but are malformed.
func Read(r io.Reader) ([]Event, error) {
	var out []Event
	var faults []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		_, text, ok := strings.Cut(lines.Text(), Token)
		if !ok {
			continue
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		var e Event
		if err := d.Decode(&e); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		out = append(out, e)
	}
	return out, errors.Join(append(faults, lines.Err())...)
}

// Seconds returns the time from the start of the run to its end, and whether the
// target quality was reached.
//
// Errors: a run without start or end.
func Seconds(events []Event) (seconds float64, reached bool, err error) {
	var from, to int64
	started, ended := false, false
	for _, e := range events {
		switch e.Key {
		case RunStart:
			from, started = e.TimeMS, true
		case RunStop:
			to, ended, reached = e.TimeMS, true, e.Metadata["status"] == Success
		}
	}
	if !started || !ended {
		return 0, false, errors.New("the log has no " + RunStart + " or no " + RunStop)
	}
	return float64(to-from) / 1000, reached, nil
}
