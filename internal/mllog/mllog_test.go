package mllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sample is a log of two epochs, the second of which reaches the target.
func sample(t *testing.T) []Event {
	t.Helper()
	var b bytes.Buffer
	l := New(&b)
	at := int64(1000)
	l.now = func() int64 { at += 500; return at }
	for _, key := range []string{"submission_benchmark", "submission_org", "submission_platform", "submission_division", "submission_status"} {
		l.Point(key, "x", nil)
	}
	l.Point("cache_clear", false, nil)
	l.Start("init", nil)
	l.Stop("init", nil)
	l.Start("run", nil)
	for key, v := range map[string]any{"seed": 1, "global_batch_size": 4, "gradient_accumulation_frequency": 1, "train_samples": 8, "eval_samples": 2, "opt_name": "adamw", "opt_base_learning_rate": 0.003, Target: 0.5} {
		l.Point(key, v, nil)
	}
	l.Start("staging", nil)
	l.Stop("staging", nil)
	for i, loss := range []float64{0.6, 0.5} {
		m := Metadata{EpochNum: i + 1}
		l.Start("epoch", m)
		l.Stop("epoch", m)
		l.Start("eval", m)
		l.Point(EvalAccuracy, loss, m)
		l.Stop("eval", m)
	}
	l.End(Success, nil)
	l.Point("seed", 2, nil) // dropped
	if l.Err() != nil || !l.Ended() {
		t.Fatal(l.Err())
	}
	events, err := Read(strings.NewReader("another program\nprefix " + b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestCheck(t *testing.T) {
	if faults := Check(sample(t)); faults != nil {
		t.Fatalf("a sound log: %v", faults)
	}
	if s, ok := Seconds(sample(t)); !ok || s != 10.5 { // 21 events between start and end, half a second each
		t.Errorf("%g s, %v", s, ok)
	}
	at := func(events []Event, key string) int {
		return slices.IndexFunc(events, func(e Event) bool { return e.Key == key })
	}
	remove := func(key string) func([]Event) []Event {
		return func(e []Event) []Event { i := at(e, key); return slices.Delete(e, i, i+1) }
	}
	for _, c := range []struct {
		name   string
		change func([]Event) []Event
		want   string
	}{
		{"no run_start", remove(RunStart), "run_start is there 0 times"},
		{"no init_stop", remove("init_stop"), "the initialisation has not ended"},
		{"no accuracy", remove(EvalAccuracy), "it has no accuracy"},
		{"no seed", remove("seed"), "seed is there 0 times"},
		{"no target", remove(Target), "whether the target was reached is false"},
		{"no epoch_stop", remove("epoch_stop"), "the one before it has not ended"},
		{"no staging_start", remove("staging_start"), "none has begun"},
		{"two seeds", func(e []Event) []Event { return slices.Insert(e, 12, e[at(e, "seed")]) }, "seed is there 2 times"},
		{"a clock that jumps", func(e []Event) []Event { e[9].TimeMS = 0; return e }, "its time lies before"},
		{"went on after the target", func(e []Event) []Event { i := at(e, EvalAccuracy); e[i].Value = 0.4; return e }, "the target had been reached before"},
		{"success without the target", func(e []Event) []Event { e[len(e)-3].Value = 0.51; return e }, "its status is success"},
		{"aborted at the target", func(e []Event) []Event { e[len(e)-1].Metadata["status"] = Aborted; return e }, "its status is aborted"},
		{"an epoch is left out", func(e []Event) []Event { e[at(e, "epoch_start")].Metadata[EpochNum] = 2.0; return e }, "it is epoch 2, want 1"},
		{"a point as an interval", func(e []Event) []Event { e[at(e, "seed")].Type = start; return e }, "want POINT_IN_TIME"},
		{"after the end", func(e []Event) []Event { return append(e, e[0]) }, "it comes after the end of the run"},
		{"staging before the run", func(e []Event) []Event {
			i, j := at(e, RunStart), at(e, "staging_start")
			e[i], e[j] = e[j], e[i]
			e[i].TimeMS, e[j].TimeMS = e[j].TimeMS, e[i].TimeMS
			return e
		}, "the run has not started"},
	} {
		if got := errors.Join(Check(c.change(sample(t)))...); !strings.Contains(fmt.Sprint(got), c.want) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	good, err := json.Marshal(Event{Key: "seed", Type: point})
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(strings.NewReader(Token + string(good) + "\n" + Token + "{\n" + Token + `{"key": "x", "colour": 3}` + "\n"))
	if len(events) != 1 || err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v, %v", events, err)
	}
	var none *Log
	none.Point("seed", 1, nil)
	none.Start("run", nil)
	none.End(Aborted, nil)
	if none.Err() != nil || !none.Ended() {
		t.Error("the nil log is no log")
	}
	broken := New(full{})
	broken.Point("seed", 1, nil)
	if broken.Err() == nil {
		t.Error("a log that cannot be written has no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

// FuzzRead: any text is read as events or refused, and any events are checked.
func FuzzRead(f *testing.F) {
	var log bytes.Buffer
	l := New(&log)
	l.Point("seed", 1, nil)
	l.Start("epoch", Metadata{EpochNum: 1})
	l.Stop("epoch", Metadata{EpochNum: 1})
	l.End(Success, nil)
	f.Add(log.String())
	f.Add(Token + ` {"key": "run_stop", "event_type": "INTERVAL_END", "metadata": {"status": {}, "epoch_num": []}}`)
	f.Fuzz(func(t *testing.T, text string) {
		events, err := Read(strings.NewReader(text))
		if err == nil && len(events) < strings.Count(text, "\n"+Token) {
			t.Errorf("%q: %d events", text, len(events))
		}
		Check(events)
		Seconds(events)
	})
}
