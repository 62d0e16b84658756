// Package mllog writes and reads logs of trainings that are timed to a quality, as the rules of MLPerf HPC
// ask for: a line for each event, which begins with ":::MLLOG" and goes on with a JSON object. Package
// mllogtest holds a log to the rules.
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

// Token begins each line.
const Token = ":::MLLOG "

// The kinds of events.
const (
	point = "POINT_IN_TIME"
	start = "INTERVAL_START"
	end   = "INTERVAL_END"
)

// The keys that a log has a meaning by.
const (
	RunStart     = "run_start"
	RunStop      = "run_stop"
	EvalAccuracy = "eval_accuracy"
	Target       = "quality_target"
)

// The values of status in the metadata of RunStop.
const (
	Success = "success" // the quality was reached
	Aborted = "aborted"
)

// EpochNum is the metadata that numbers epochs, from 1.
const EpochNum = "epoch_num"

// Metadata are further facts about an event.
type Metadata map[string]any

// Event is one line.
type Event struct {
	Namespace string   `json:"namespace"`
	TimeMS    int64    `json:"time_ms"` // since 1970
	Type      string   `json:"event_type"`
	Key       string   `json:"key"`
	Value     any      `json:"value"`
	Metadata  Metadata `json:"metadata"`
}

// Log writes events, each with one write. The nil Log drops them. The first error stays; what comes later is dropped.
type Log struct {
	w     io.Writer
	now   func() int64 // milliseconds; never goes back
	ended bool
	err   error
}

// New makes a Log. Times follow a clock that never jumps, from what the machine's clock says now.
func New(w io.Writer) *Log {
	began := time.Now()
	return &Log{w: w, now: func() int64 { return began.UnixMilli() + time.Since(began).Milliseconds() }}
}

// Point notes a fact.
func (l *Log) Point(key string, value any, m Metadata) { l.event(point, key, value, m) }

// Start notes the beginning of an interval; its key is name_start.
func (l *Log) Start(name string, m Metadata) { l.event(start, name+"_start", nil, m) }

// Stop notes its end.
func (l *Log) Stop(name string, m Metadata) { l.event(end, name+"_stop", nil, m) }

// End notes the end of the run. What comes after it is no part of the log.
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

// Ended says whether the run's end was noted.
func (l *Log) Ended() bool { return l == nil || l.ended }

// Err is the first error.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	return l.err
}

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

// Read reads the events of a log; lines of other programs between them are left out.
//
// Errors: a line that begins as an event and is none.
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

// Seconds is the time from the start of the run to its end, and whether the quality was reached.
//
// Errors: a run that has not started or not ended.
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
		return 0, false, errors.New("it has no " + RunStart + " or no " + RunStop)
	}
	return float64(to-from) / 1000, reached, nil
}
