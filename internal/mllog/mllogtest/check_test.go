package mllogtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/mllog"
)

// sample is a log of two epochs, the second of which reaches the target.
func sample(t *testing.T) []mllog.Event {
	t.Helper()
	var b bytes.Buffer
	l := mllog.New(&b)
	for _, key := range []string{"submission_benchmark", "submission_org", "submission_platform", "submission_division", "submission_status"} {
		l.Point(key, "x", nil)
	}
	l.Point("cache_clear", false, nil)
	l.Start("init", nil)
	l.Stop("init", nil)
	l.Start("run", nil)
	for key, v := range map[string]any{"seed": 1, "global_batch_size": 4, "gradient_accumulation_frequency": 1, "train_samples": 8, "eval_samples": 2, "opt_name": "adamw", "opt_base_learning_rate": 0.003, mllog.Target: 0.5} {
		l.Point(key, v, nil)
	}
	l.Start("staging", nil)
	l.Stop("staging", nil)
	for i, loss := range []float64{0.6, 0.5} {
		m := mllog.Metadata{mllog.EpochNum: i + 1}
		l.Start("epoch", m)
		l.Stop("epoch", m)
		l.Start("eval", m)
		l.Point(mllog.EvalAccuracy, loss, m)
		l.Stop("eval", m)
	}
	l.End(mllog.Success, nil)
	l.Point("seed", 2, nil) // dropped
	if l.Err() != nil || !l.Ended() {
		t.Fatal(l.Err())
	}
	events, err := mllog.Read(strings.NewReader("another program\nprefix " + b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		events[i].TimeMS = 1500 + 500*int64(i)
	}
	return events
}

func TestFaults(t *testing.T) {
	if faults := Violations(sample(t)); faults != nil {
		t.Fatalf("a sound log: %v", faults)
	}
	if s, ok, err := mllog.Seconds(sample(t)); !ok || s != 10.5 || err != nil { // 21 events between start and end, half a second each
		t.Errorf("%g s, %v, %v", s, ok, err)
	}
	at := func(events []mllog.Event, key string) int {
		return slices.IndexFunc(events, func(e mllog.Event) bool { return e.Key == key })
	}
	remove := func(key string) func([]mllog.Event) []mllog.Event {
		return func(e []mllog.Event) []mllog.Event { i := at(e, key); return slices.Delete(e, i, i+1) }
	}
	for _, c := range []struct {
		name   string
		change func([]mllog.Event) []mllog.Event
		want   string
	}{
		{"no run_start", remove(mllog.RunStart), "run_start occurs 0 times"},
		{"no init_stop", remove("init_stop"), "the initialisation has not ended"},
		{"no accuracy", remove(mllog.EvalAccuracy), "it has no accuracy"},
		{"no seed", remove("seed"), "seed occurs 0 times"},
		{"no target", remove(mllog.Target), "target reached is false"},
		{"no epoch_stop", remove("epoch_stop"), "the previous one has not ended"},
		{"no staging_start", remove("staging_start"), "none has started"},
		{"two seeds", func(e []mllog.Event) []mllog.Event { return slices.Insert(e, 12, e[at(e, "seed")]) }, "seed occurs 2 times"},
		{"a clock that jumps", func(e []mllog.Event) []mllog.Event { e[9].TimeMS = 0; return e }, "its time is before"},
		{"went on after the target", func(e []mllog.Event) []mllog.Event { i := at(e, mllog.EvalAccuracy); e[i].Value = 0.4; return e }, "the target was reached before"},
		{"success without the target", func(e []mllog.Event) []mllog.Event { e[len(e)-3].Value = 0.51; return e }, "its status is success"},
		{"aborted at the target", func(e []mllog.Event) []mllog.Event { e[len(e)-1].Metadata["status"] = mllog.Aborted; return e }, "its status is aborted"},
		{"an epoch is left out", func(e []mllog.Event) []mllog.Event { e[at(e, "epoch_start")].Metadata[mllog.EpochNum] = 2.0; return e }, "it is epoch 2, want 1"},
		{"a point as an interval", func(e []mllog.Event) []mllog.Event { e[at(e, "seed")].Type = start; return e }, "want POINT_IN_TIME"},
		{"after the end", func(e []mllog.Event) []mllog.Event { return append(e, e[0]) }, "it is after the end of the run"},
		{"staging before the run", func(e []mllog.Event) []mllog.Event {
			i, j := at(e, mllog.RunStart), at(e, "staging_start")
			e[i], e[j] = e[j], e[i]
			e[i].TimeMS, e[j].TimeMS = e[j].TimeMS, e[i].TimeMS
			return e
		}, "the run has not started"},
	} {
		if got := errors.Join(Violations(c.change(sample(t)))...); !strings.Contains(fmt.Sprint(got), c.want) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}
