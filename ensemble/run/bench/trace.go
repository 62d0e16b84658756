package bench

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// trace is a timeline in the format of Perfetto and Chrome's tracing page: a process per case, a thread for
// its training step and one for its prediction, a complete event ("X") for the step, within it one for the
// graph and one for the optimiser, and within the graph one per kernel. On ranks a process is a rank, with threads for
// the step, its waits, the sums of gradients, and other messages.
//
// Source: Trace Event Format, "JSON Object Format".
type trace struct {
	Unit   string       `json:"displayTimeUnit"`
	Events []traceEvent `json:"traceEvents"`
	cases  int
}

// traceEvent is one event.
//
// Unit: µs.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"` // "X" complete, "M" metadata
	Start    float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// add appends the steps of a case.
func (t *trace) add(c Case, steps ...*StepRecord) {
	t.cases++
	t.name("process_name", 0, c.String())
	for i, s := range steps {
		thread := i + 1
		t.name("thread_name", thread, string(s.Phase))
		t.step(thread, c, s)
	}
}

// step appends a step with its kernels to a thread.
func (t *trace) step(thread int, c Case, s *StepRecord) {
	t.span(thread, string(s.Phase)+" step", "step", 0, s.Whole, map[string]any{"case": c.String()})
	t.span(thread, "graph", "step", 0, s.Graph, nil)
	for _, k := range s.Kernels {
		category := "forward"
		if k.Backward {
			category = "backward"
		}
		t.span(thread, traceName(k), category, k.Start, k.Duration, traceArgs(k))
	}
	if s.Optimizer > 0 {
		t.span(thread, "optimiser", "step", s.Whole-s.Optimizer, s.Optimizer, nil)
	}
}

// span appends a complete event.
func (t *trace) span(thread int, name, category string, start, d time.Duration, args map[string]any) {
	us := float64(d) / 1e3
	t.Events = append(t.Events, traceEvent{Name: name, Category: category, Phase: "X",
		Start: float64(start) / 1e3, Duration: &us, Process: t.cases, Thread: thread, Args: args})
}

// name appends the name of a process or thread.
func (t *trace) name(what string, thread int, name string) {
	t.Events = append(t.Events, traceEvent{Name: what, Phase: "M", Process: t.cases, Thread: thread, Args: map[string]any{"name": name}})
}

// traceName is the operation and its layer.
func traceName(k engine.KernelTime) string {
	if k.Layer == "" {
		return k.Op
	}
	return k.Op + " " + k.Layer
}

// traceArgs returns the details of a kernel.
func traceArgs(k engine.KernelTime) map[string]any {
	a := map[string]any{"op": k.Op, "kernel": k.Kernel, "shape": fmt.Sprint(k.Shape), "class": k.Class, "bound": k.Bound, "flops": k.FLOPs, "bytes": k.Bytes}
	if s := k.Duration.Seconds(); s > 0 {
		a["gflops"], a["gib_s"] = float64(k.FLOPs)/s/1e9, float64(k.Bytes)/s/(1<<30)
	}
	return a
}

// save writes the file.
func (t *trace) save(path string) error {
	t.Unit = "ms"
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, append(text, '\n')))
}
