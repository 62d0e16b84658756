package pipeline

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// On a network on which messages do not meet, a simulated step is the predicted one. (A worker that asks whether a message has
// left takes 0.1 µs.)
func TestSimulatedSteps(t *testing.T) {
	const latency, bytes = 200 * cluster.Microsecond, 4_000_000
	network := cluster.LogGP{Latency: latency, Rate: 4_000_000_000}
	for _, d := range []int{2, 4, 8} {
		for name, s := range schedules(t, d) {
			c := EqualCosts(d, 10*cluster.Millisecond, 30*cluster.Millisecond, latency+cluster.Millisecond)
			sizes := make([]int64, d-1)
			for k := range sizes {
				c.Forward[k] += cluster.Time(k) * cluster.Millisecond
				sizes[k] = bytes
			}
			got, err := Simulate(t.Context(), s, c, sizes, network)
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.Time(c)
			if err != nil {
				t.Fatal(err)
			}
			// Workers start a task of two pieces with its first one, which Time does not count on.
			low := -1e-4
			if slices.ContainsFunc(s.Tasks[0], func(t Task) bool { return t.Count > 1 }) {
				low = -0.07
			}
			if e := got.End.Seconds()/want.End.Seconds() - 1; e < low || e > 1e-4 {
				t.Errorf("%s, %d stages: simulated %v, predicted %v (%+.3f %%)", name, d, got.End, want.End, 100*e)
			}
			if e := got.MeanBubbles() - want.MeanBubbles(); e < low || e > 1e-4 {
				t.Errorf("%s, %d stages: bubbles %.4f, predicted %.4f", name, d, got.MeanBubbles(), want.MeanBubbles())
			}
		}
	}
}

// All ranks get one timeline, of all passes in their order, and the medians of their times.
func TestMeasuredTimeline(t *testing.T) {
	const ranks = 4
	stages := splitEvenly(t, stopped(t), ranks)
	s, err := Chimera(ranks, ranks, ChimeraOptions{Scaling: HalveBackward})
	if err != nil {
		t.Fatal(err)
	}
	timelines := make([]*Timeline, ranks)
	err = comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := w.Timeline(); err == nil {
			t.Error("a timeline without a step")
		}
		if _, err := w.Step(t.Context(), 0, samples); err != nil {
			return err
		}
		timelines[c.Rank()], err = w.Timeline()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var last, longest cluster.Time
	for w, spans := range timelines[0].Spans {
		for r := range ranks {
			if !slices.Equal(spans, timelines[r].Spans[w]) || len(spans) != 4*ranks {
				t.Errorf("ranks 0 and %d differ in the passes of worker %d: %v and %v", r, w, spans, timelines[r].Spans[w])
			}
		}
		for i, x := range spans {
			if x.End <= x.Start && (x.Backward || x.Stage == 0) || i > 0 && x.Start < spans[i-1].End {
				t.Errorf("worker %d: pass %v at %v to %v", w, x.Task, x.Start, x.End)
			}
			last, longest = max(last, x.End), max(longest, x.End-x.Start)
		}
	}
	// Repeat joins the halves of a forward pass, which the step sent one by one: a stage may wait for the second half of each.
	free, err := s.Repeat(timelines[0], nil)
	if err != nil || free.End > timelines[0].End+ranks*longest || free.Busy(1) != timelines[0].Busy(1) {
		t.Errorf("without messages %v, %v, measured %v", free, err, timelines[0])
	}
	c := s.MeasuredCosts(timelines[0])
	if timelines[0].End != last || slices.Min(c.Backward) <= 0 {
		t.Errorf("end %v of %v, costs %+v", timelines[0].End, last, c)
	}
	x := &Timeline{Spans: [][]Span{{{Task{Count: 1}, 0, 2}, {Task{Count: 1}, 5, 9}, {Task{Count: 1}, 9, 19}}, {}}}
	if got := s.MeasuredCosts(x); got.Forward[0] != 8 || got.Backward[0] != 0 {
		t.Errorf("median %v of halves of 2, 4 and 10, want 8", got.Forward[0])
	}
}

// Workers keep messages of as many pieces as the schedule states, for each stage.
func TestKeptMessages(t *testing.T) {
	for _, d := range []int{2, 4, 8} {
		for name, s := range schedules(t, d) {
			lengths, want := make([]int, d-1), s.PeakActivations()
			for k := range lengths {
				lengths[k] = 100
			}
			err := comm.Run(d, comm.Replay(5), func(c *comm.Comm) error {
				x := &executor[comm.SizeOnly]{c: c, s: s, do: simulated{}, lengths: [2][]int{lengths, lengths}}
				most := 0
				x.measure = func(task Task, _ int, compute func() error) error {
					kept := len(x.kept)
					if !task.Backward {
						kept++
					}
					most = max(most, kept)
					return compute()
				}
				if err := x.run(t.Context()); err != nil {
					return err
				}
				if most != want[c.Rank()] || len(x.kept) > 0 {
					t.Errorf("%s, %d stages: worker %d keeps %d pieces, and %d after the step, want %d", name, d, c.Rank(), most, len(x.kept), want[c.Rank()])
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// Forward passes of stage 0 take 2 or 4, others nothing. Both workers of Chimera run one and then wait for that of the other: a
// step takes 4 with three of four pairs, and with two of them one worker is idle for half of it. Median passes have no idle time.
func TestExpect(t *testing.T) {
	s := must(t)(Chimera(2, 2, ChimeraOptions{}))
	var measured []*Timeline
	for _, c := range [][2]cluster.Time{{2, 2}, {2, 4}, {4, 2}, {4, 4}} {
		x := &Timeline{Spans: make([][]Span, 2)}
		for w, tasks := range s.Tasks {
			for _, task := range tasks {
				span := Span{Task: task}
				if task.Stage == 0 && !task.Backward {
					span.End = c[w] * cluster.Second
				}
				x.Spans[w] = append(x.Spans[w], span)
			}
		}
		measured = append(measured, x)
	}
	got, err := s.Expect(measured, nil)
	if err != nil || got.End != 3500*cluster.Millisecond || got.Bubbles != 0.125 {
		t.Errorf("mean step of %v, idle share %g, %v, want 3.5 s and 0.125", got.End, got.Bubbles, err)
	}
	// The forward pass of stage 1 waits for a message, and that of stage 0 backward.
	if got, err = s.Expect(measured[:1], []cluster.Time{cluster.Second}); err != nil || got.End != 4*cluster.Second {
		t.Errorf("a step with messages of 1 s takes %v, %v, want 4 s", got.End, err)
	}
	median, err := s.Time(s.MeasuredCosts(measured...))
	if err != nil || median.MeanBubbles() != 0 {
		t.Errorf("median passes have an idle share of %g, %v, want 0", median.MeanBubbles(), err)
	}
}
