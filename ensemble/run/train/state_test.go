package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// What an event does to a part of the state.
const (
	kept       = "kept"
	reset      = "reset"
	rewound    = "rewound"
	recomputed = "recomputed"
)

// stateTable is the table of docs/training.md: what each event does to each part of the state of a training.
var stateTable = []stateRow{
	{"weights", []string{kept, kept, rewound, kept, kept, reset, kept, kept}, tensorEffect(partWeights)},
	{"average of weights", []string{kept, kept, reset, kept, kept, reset, kept, kept}, averageEffect},
	{"moments of the optimiser", []string{kept, kept, reset, kept, kept, reset, kept, kept}, tensorEffect(partOptimizer)},
	{"learning rate", []string{kept, kept, rewound, kept, kept, reset, recomputed, kept}, effect(func(s *snapshot) any { return s.rate })},
	{"best and count of `plateau`", []string{kept, kept, reset, reset, reset, reset, kept, kept}, effect(func(s *snapshot) any { return s.pos.Plateau })},
	{"best weights and loss", []string{kept, kept, reset, reset, reset, reset, kept, kept}, effect(func(s *snapshot) any { return [2]any{s.pos.BestLoss, s.part(partBest)} })},
	{"epoch from which patience counts", []string{kept, kept, reset, reset, reset, reset, kept, kept}, effect((*snapshot).bestEpoch)},
	{"mask", []string{kept, kept, recomputed, recomputed, "", reset, kept, kept}, effect(func(s *snapshot) any { return s.masks })},
	{"channels", []string{kept, kept, "", "", recomputed, reset, kept, kept}, effect(func(s *snapshot) any { return s.pos.Kept })},
	{"random numbers", []string{kept, kept, kept, kept, kept, reset, kept, kept}, effect(func(s *snapshot) any { return s.pos.Step })},
	{"place in the order of samples", []string{kept, kept, rewound, kept, kept, reset, kept, kept}, effect(func(s *snapshot) any { return [2]int{s.pos.Epoch, s.pos.Batch} })},
}

// stateEvents are the columns of stateTable.
var stateEvents = []string{"resume", "older checkpoint", "lottery rewind", "new mask", "channels removed", "restart", "more epochs", "other ranks"}

// stateRow is a part of the state, and what each event does to it; "" if networks with the event have no such part.
type stateRow struct {
	name   string
	cells  []string
	effect func(stateChange) string
}

// snapshot is the state of a training in a checkpoint.
type snapshot struct {
	pos     position
	tensors map[string][]float32
	masks   map[string][]uint8
	rate    float64 // learning rate of the next step
}

// stateChange are the states around an event. from is the state to which it returns, nil without; fresh is that of a
// new training.
type stateChange struct{ before, after, from, fresh *snapshot }

// bestEpoch is the epoch of the best weights; -1 without, when patience counts from the last epoch.
func (s *snapshot) bestEpoch() any {
	if s.pos.BestLoss == noBest {
		return -1
	}
	return s.pos.BestEpoch
}

// part are the tensors with a prefix.
func (s *snapshot) part(prefix string) map[string][]float32 {
	out := map[string][]float32{}
	for name, v := range s.tensors {
		if of, ok := strings.CutPrefix(name, prefix); ok {
			out[of] = v
		}
	}
	return out
}

// classify names the effect of an event from comparisons of the state after it.
func classify(isKept, isReset, isRewound bool) string {
	switch {
	case isReset:
		return reset
	case isRewound:
		return rewound
	case isKept:
		return kept
	}
	return recomputed
}

// effect classifies by equality of a part of the state.
func effect(part func(*snapshot) any) func(stateChange) string {
	return func(e stateChange) string {
		is := func(s *snapshot) bool { return s != nil && reflect.DeepEqual(part(e.after), part(s)) }
		return classify(is(e.before), is(e.fresh), is(e.from) && !is(e.before))
	}
}

// tensorEffect classifies by tensors, which are also kept if some values became 0 or were removed.
func tensorEffect(prefix string) func(stateChange) string {
	return func(e stateChange) string {
		after := e.after.part(prefix)
		is := func(s *snapshot) bool { return s != nil && reflect.DeepEqual(after, s.part(prefix)) }
		return classify(isPartOf(after, e.before.part(prefix)), is(e.fresh), e.from != nil && isPartOf(after, e.from.part(prefix)))
	}
}

// averageEffect is tensorEffect of the average, which is reset to the present weights if it is not that of a new training.
func averageEffect(e stateChange) string {
	average := e.after.part(partAverage)
	return classify(isPartOf(average, e.before.part(partAverage)), reflect.DeepEqual(average, e.after.part(partWeights)) || reflect.DeepEqual(average, e.fresh.part(partAverage)), false)
}

// isPartOf reports whether all values of a are values of b, or 0 where they were masked.
func isPartOf(a, b map[string][]float32) bool {
	zeros, all := 0, 0
	for name, v := range a {
		for i, x := range v {
			all++
			switch {
			case len(v) == len(b[name]) && b[name][i] == x, len(v) < len(b[name]) && slices.Contains(b[name], x):
			case x == 0:
				zeros++
			default:
				return false
			}
		}
	}
	return zeros < all*2/3
}

// stateRun trains a configuration in one directory, with stops.
type stateRun struct {
	t   *testing.T
	set []string
	dir string
}

// newStateRun returns a training of 4 epochs of 4 steps, whose learning rate differs at every step.
func newStateRun(t *testing.T, set ...string) *stateRun {
	return &stateRun{t, append([]string{"train.networks=1", "train.threads=2", "train.ema=0.7", "train.clip=0", "train.schedule=plateau", "train.warmup=15", "train.checkpoint.keep=100"}, set...), filepath.Join(t.TempDir(), "run")}
}

// to trains for so many batches more and returns the state there. Before the stop, look gets the last checkpoint unless it is nil.
func (r *stateRun) to(batches int, resume string, look func(*snapshot), more ...string) *snapshot {
	r.t.Helper()
	stop := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	run := func(dir, resume string, batches int, look func(*snapshot)) {
		o := Options{Config: demotest.Config(r.t, demotest.Files(r.t), slices.Concat(r.set, more)...), RunDir: dir, Resume: resume, Overwrite: resume == "", Version: "test"}
		o.Stop = func() error {
			if batches--; batches >= 0 {
				return nil
			}
			if look != nil {
				look(readSnapshot(r.t, dir))
			}
			return stop
		}
		if _, err := Run(context.Background(), o); !errors.Is(err, stop) {
			r.t.Fatalf("%v, want a stop", err)
		}
	}
	run(r.dir, resume, batches, look)
	s := readSnapshot(r.t, r.dir)
	next := filepath.Join(r.t.TempDir(), "next") // for the rate of the next step
	runtest.Must(r.t, os.CopyFS(next, os.DirFS(r.dir)))
	run(next, "auto", 1, nil)
	events, err := rundir.ReadEvents(next)
	runtest.Must(r.t, err)
	for _, e := range events {
		if v, ok := e.Number("rate"); ok && e.Kind == "step" {
			s.rate = v
		}
	}
	return s
}

// readSnapshot reads the newest checkpoint of a run.
func readSnapshot(t *testing.T, dir string) *snapshot {
	t.Helper()
	c := runtest.NewestCheckpoint(t, dir)
	s := &snapshot{tensors: runtest.CheckpointTensors(c), masks: map[string][]uint8{}}
	runtest.Must(t, json.Unmarshal(c.State, &s.pos))
	for _, x := range c.Tensors {
		if v, ok := x.Data.([]uint8); ok && strings.HasPrefix(x.Name, partPruning+"mask.") {
			s.masks[x.Name] = v
		}
	}
	return s
}

// Trainings whose state the events change: by masks, and by channels.
var (
	maskedTraining  = []string{"prune.method=magnitude", "prune.target=0.5", "prune.every=2", "prune.from=0%", "prune.to=30%", "train.learning_rate=0.1"}
	channelTraining = []string{"prune.method=magnitude", "prune.structure=channel", "prune.channel_multiple=1", "prune.target=0.5", "prune.from=1 epochs", "prune.to=2 epochs", "model.base=4"}
)

// processEvent lets a stopped training continue by one of the events of a new process and returns the states.
func processEvent(t *testing.T, event string, set []string, batches int) (e stateChange) {
	r := newStateRun(t, set...)
	e.fresh = r.to(0, "", nil)
	if event == "older checkpoint" {
		e.before = r.to(batches-1, "auto", nil)
		r.to(1, "auto", nil)
		e.after = r.to(0, fmt.Sprint(e.before.pos.Step), nil)
		return e
	}
	e.before = r.to(batches, "auto", nil)
	switch event {
	case "resume":
		e.after = r.to(0, "auto", nil)
	case "restart":
		e.after = r.to(0, "", nil)
	case "more epochs":
		e.after = r.to(0, "auto", nil, "train.epochs=8")
	case "other ranks":
		e.after = r.to(0, "auto", nil, "train.mesh=lat:2")
	}
	return e
}

// stateChangeOf causes an event in a training that has a part of the state.
func stateChangeOf(t *testing.T, event, part string) (e stateChange) {
	switch {
	case event == "lottery rewind":
		r := newStateRun(t, "prune.method=lottery", "prune.target=0.5", "prune.from=31.25%", "prune.to=56.25%") // steps 5 and 9
		e.fresh, e.from = r.to(0, "", nil), r.to(5, "auto", nil)
		e.before = r.to(4, "auto", nil)
		e.after = r.to(1, "auto", nil)
	case event == "new mask": // in step 5, but not in a training with the same masks before it
		set := []string{"prune.method=magnitude", "prune.target=0.5", "prune.from=18.75%", "prune.to=60%", "prune.initial=0.2"}
		with, without := newStateRun(t, append(set, "prune.every=2")...), newStateRun(t, append(set, "prune.every=3")...)
		e.fresh = with.to(0, "", nil)
		e.before, e.after = without.to(6, "", nil), with.to(6, "auto", nil)
	case event == "channels removed": // between the checkpoint of step 8 and that step
		r := newStateRun(t, channelTraining...)
		e.fresh = r.to(0, "", nil)
		e.after = r.to(8, "auto", func(s *snapshot) { e.before = s })
		e.before.rate = e.after.rate
	case part == "channels":
		return processEvent(t, event, channelTraining, 10)
	case event == "more epochs" && part == "learning rate":
		return processEvent(t, event, append(maskedTraining, "train.schedule=cosine", "train.warmup=0"), 10)
	default:
		return processEvent(t, event, maskedTraining, 14)
	}
	return e
}

// checkStateEvent checks the column of an event.
func checkStateEvent(t *testing.T, event string) {
	column := slices.Index(stateEvents, event)
	changes := map[string]stateChange{}
	for _, row := range stateTable {
		if row.cells[column] == "" {
			continue
		}
		key := ""
		if row.name == "channels" || row.name == "learning rate" && event == "more epochs" {
			key = row.name
		}
		e, ok := changes[key]
		if !ok {
			e = stateChangeOf(t, event, row.name)
			changes[key] = e
		}
		if got := row.effect(e); got != row.cells[column] {
			t.Errorf("%s, %s: %s, the table has %s; position before %+v, after %+v, rates %g and %g", event, row.name, got, row.cells[column], e.before.pos, e.after.pos, e.before.rate, e.after.rate)
		}
	}
}

// A lottery rewind also returns the running statistics of batch norms to those before the step at prune.from, and the run has
// no best checkpoint until the next validation.
func TestRewindOfStatistics(t *testing.T) {
	r := newStateRun(t, "model.kind=unet2d", "prune.method=lottery", "prune.target=0.5", "prune.from=25%", "prune.to=56.25%") // steps 4 and 9
	e := stateChange{fresh: r.to(0, "", nil), from: r.to(4, "auto", nil), before: r.to(5, "auto", nil), after: r.to(1, "auto", nil)}
	if got := tensorEffect(partWeights)(e); got != rewound {
		t.Errorf("weights and statistics are %s", got)
	}
	statistics := 0
	for name := range e.after.part(partWeights) {
		if strings.Contains(name, "running") {
			statistics++
		}
	}
	if statistics == 0 {
		t.Error("the network has no statistics")
	}
	if step, ok := ckpt.Best(filepath.Join(r.dir, "checkpoints")); ok {
		t.Errorf("step %d is the best of a network that was not validated", step)
	}
}

// Channels whose time has passed, because fewer epochs were requested on resuming, are removed at once.
func TestRemovalAfterFewerEpochs(t *testing.T) {
	r := newStateRun(t, append(channelTraining, "prune.from=50%", "prune.to=60%", "train.epochs=8", "train.warmup=5")...)
	if s := r.to(10, "auto", nil); s.pos.Kept != nil {
		t.Fatalf("channels were removed early: %v", s.pos.Kept)
	}
	if s := r.to(0, "auto", nil, "train.epochs=3"); s.pos.Kept == nil {
		t.Error("no channel was removed")
	}
}

// The table of state and event in docs/training.md is the one whose cells are tested.
func TestStateTableOfDocs(t *testing.T) {
	want := "| | " + strings.Join(stateEvents, " | ") + " |\n|---" + strings.Repeat("|---", len(stateEvents)) + "|\n"
	for _, row := range stateTable {
		want += "| " + row.name
		for _, cell := range row.cells {
			if cell == "" {
				cell = "–"
			}
			want += " | " + cell
		}
		want += " |\n"
	}
	page, err := os.ReadFile("../../../docs/training.md")
	runtest.Must(t, err)
	if !strings.Contains(string(page), want) {
		t.Errorf("docs/training.md does not have the table\n%s", want)
	}
}

// What lottery rewinding does to each part of the state. (All events: TestLongStateTable.)
func TestStateTable(t *testing.T) { checkStateEvent(t, "lottery rewind") }
