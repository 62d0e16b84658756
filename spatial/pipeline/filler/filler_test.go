package filler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
)

// step is the timeline of four equal stages and micro-batches, forward passes of 2 and backward passes of 4.
func step(t *testing.T, of func(stages, micro int) (*pipeline.Schedule, error)) *pipeline.Timeline {
	t.Helper()
	s, err := of(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Time(pipeline.EqualCosts(4, 2, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// kfac is the work of the tables: pieces of 1, inversions of 5.
func kfac(int) []Item {
	return KFAC(Factor{Curvature: 1, Inversion: 5}, Factor{Curvature: 1, Inversion: 5}, 4, AnyPipe)
}

// text lists the placed pieces of a worker, as step:item@start.
func (w *Worker) text() string {
	var b strings.Builder
	for _, p := range w.Places {
		fmt.Fprintf(&b, "%d:%s@%d ", p.Step, w.Items[p.Item].Name, p.Start)
	}
	return strings.TrimSpace(b.String())
}

// Idle times, steps of a round and utilisation of both pipelines.
func TestTables(t *testing.T) {
	for _, c := range []struct {
		of     func(stages, micro int) (*pipeline.Schedule, error)
		worker int
		gaps   []pipeline.Gap
		steps  int
		after  float64
	}{
		{pipeline.GPipe, 0, []pipeline.Gap{{Start: 8, End: 26}}, 2, .7857},
		{pipeline.GPipe, 1, []pipeline.Gap{{Start: 0, End: 2}, {Start: 10, End: 22}, {Start: 38, End: 42}}, 2, .7857},
		{pipeline.GPipe, 2, []pipeline.Gap{{Start: 0, End: 4}, {Start: 12, End: 18}, {Start: 34, End: 42}}, 2, .7857},
		{pipeline.GPipe, 3, []pipeline.Gap{{Start: 0, End: 6}, {Start: 30, End: 42}}, 2, .7857},
		{pipeline.OneFOneB, 0, []pipeline.Gap{{Start: 8, End: 20}, {Start: 24, End: 26}, {Start: 30, End: 32}, {Start: 36, End: 38}}, 2, .7857},
		{pipeline.OneFOneB, 1, []pipeline.Gap{{Start: 0, End: 2}, {Start: 8, End: 16}, {Start: 26, End: 28}, {Start: 32, End: 34}, {Start: 38, End: 42}}, 3, .7143},
		{pipeline.OneFOneB, 2, []pipeline.Gap{{Start: 0, End: 4}, {Start: 8, End: 12}, {Start: 28, End: 30}, {Start: 34, End: 42}}, 3, .7143},
		{pipeline.OneFOneB, 3, []pipeline.Gap{{Start: 0, End: 6}, {Start: 30, End: 42}}, 2, .7857},
	} {
		x := step(t, c.of)
		p, err := Assign(x, kfac, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := &p.Workers[c.worker]
		if got := x.Gaps(c.worker); !slices.Equal(got, c.gaps) {
			t.Errorf("worker %d: idle times %v, want %v", c.worker, got, c.gaps)
		}
		before, after := w.Utilisation(x, 0)
		if w.Steps != c.steps || math.Abs(before-.5714) > 5e-5 || math.Abs(after-c.after) > 5e-5 {
			t.Errorf("worker %d: %d steps, utilisation %.4f and %.4f, want %d, .5714 and %.4f\n%s", c.worker, w.Steps, before, after, c.steps, c.after, w.text())
		}
		if w.Work() != 18 || w.LowerBound(x) != 1 || w.Overrun != 0 {
			t.Errorf("worker %d: work %d, lower bound %d, overrun %d, want 18, 1 and 0", c.worker, w.Work(), w.LowerBound(x), w.Overrun)
		}
	}
}

// Rounds of all workers are as long as the longest.
func TestRoundOfAllWorkers(t *testing.T) {
	for of, want := range map[string]int{"gpipe": 2, "1f1b": 3} {
		x := step(t, map[string]func(int, int) (*pipeline.Schedule, error){"gpipe": pipeline.GPipe, "1f1b": pipeline.OneFOneB}[of])
		p, err := Assign(x, kfac, 0)
		if err != nil || p.Refresh != want {
			t.Errorf("%s: rounds of %d steps, %v, want %d", of, p.Refresh, err, want)
		}
	}
}

// The placements that the specification states.
func TestPlacements(t *testing.T) {
	for _, c := range []struct {
		of   func(stages, micro int) (*pipeline.Schedule, error)
		want string
	}{
		{pipeline.GPipe, "0:curvature A@8 0:curvature A@9 0:curvature A@10 0:curvature A@11 0:inversion A@12 " +
			"1:curvature B@8 1:curvature B@9 1:curvature B@10 1:curvature B@11 1:inversion B@12"},
		{pipeline.OneFOneB, "0:curvature A@8 0:curvature A@9 0:curvature A@10 0:curvature A@11 0:inversion A@12 " +
			"0:curvature B@24 0:curvature B@30 0:curvature B@36 1:curvature B@8 1:inversion B@9"},
	} {
		p, err := Assign(step(t, c.of), kfac, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Workers[0].text(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// What holds for every assignment: every piece once, inside of an idle time with its margin, none at the same time as another,
// after what it waits for, in the order of After.
func TestAssignmentIsValid(t *testing.T) {
	for _, margin := range []float64{0, Margin, 0.5} {
		for d := 2; d <= 8; d += 2 {
			for _, q := range []int{1, d / 2} {
				s, err := pipeline.Chimera(d, d, pipeline.ChimeraOptions{Pairs: q})
				if err != nil {
					t.Fatal(err)
				}
				x, err := s.Time(pipeline.EqualCosts(d, 20, 45, 3))
				if err != nil {
					t.Fatal(err)
				}
				items := func(w int) []Item {
					list := append(KFAC(Factor{3, 2, 11}, Factor{4, 0, 9}, d/(2*q), w%2), Item{Name: "validation", Pieces: 5, Time: 6})
					return append(list, Item{Name: "too long", Pieces: 1, Time: 1000, After: []int{0}})
				}
				p, err := Assign(x, items, margin)
				if err != nil {
					t.Fatal(err)
				}
				for w := range p.Workers {
					checkWorker(t, x, &p.Workers[w], margin)
					// bubbles of one pair have room for all but the long item, messages of 3 do not
					if over := p.Workers[w].Overrun; over < 1000 || d > 2 && q == 1 && over != 1000 {
						t.Errorf("%d stages, %d pairs, worker %d: overrun of %d, want the item of 1000", d, q, w, over)
					}
				}
			}
		}
	}
}

func checkWorker(t *testing.T, x *pipeline.Timeline, w *Worker, margin float64) {
	t.Helper()
	next := make([]int, len(w.Items))
	var at cluster.Time // end of the piece before
	stepBefore := 0
	for _, p := range w.Places {
		item := w.Items[p.Item]
		if p.Step != stepBefore {
			at, stepBefore = 0, p.Step
		}
		if p.Piece != next[p.Item] || p.Start < at {
			t.Errorf("worker %d: piece %d of %s at %d of step %d, after a piece that ends at %d", w.worker, p.Piece, item.Name, p.Start, p.Step, at)
		}
		next[p.Item]++
		at = p.Start + item.Time
		inGap := p.Start >= x.End && p.Step == w.Steps-1
		for _, g := range x.Gaps(w.worker) {
			inGap = inGap || p.Start >= g.Start && float64(p.Start)+(1+margin)*float64(item.Time) < float64(g.End)+1
		}
		if !inGap {
			t.Errorf("worker %d: %s at %d is in no idle time of %v", w.worker, item.Name, p.Start, x.Gaps(w.worker))
		}
		for _, before := range item.After {
			if next[before] < w.Items[before].Pieces {
				t.Errorf("worker %d: %s runs before the end of %s", w.worker, item.Name, w.Items[before].Name)
			}
		}
		passes := 0
		for _, s := range x.Spans[w.worker] {
			if s.End <= p.Start && s.Backward == (item.Waits == Backward) && s.Pipe == item.Pipe {
				passes += s.Count
			}
		}
		if p.Step == 0 && item.Waits != Nothing && passes <= p.Piece {
			t.Errorf("worker %d: piece %d of %s at %d, after %d passes", w.worker, p.Piece, item.Name, p.Start, passes)
		}
	}
	for i, n := range next {
		if n != w.Items[i].Pieces {
			t.Errorf("worker %d: %d pieces of %s, want %d", w.worker, n, w.Items[i].Name, w.Items[i].Pieces)
		}
	}
	listed := 0
	var tasks []pipeline.Task
	for _, s := range x.Spans[w.worker] {
		tasks = append(tasks, s.Task)
	}
	for s := range w.Steps {
		for _, places := range w.Before(x, tasks, s) {
			listed += len(places)
		}
	}
	if listed != len(w.Places) {
		t.Errorf("worker %d: %d of %d pieces are before or after a task", w.worker, listed, len(w.Places))
	}
}

// Work runs before the task that follows its idle time. Between the two passes of a task there is no place for it: it runs after both.
func TestBeforeTasksOfTwoPasses(t *testing.T) {
	pass := func(backward bool, piece int, start, end cluster.Time) pipeline.Span {
		return pipeline.Span{Task: pipeline.Task{Backward: backward, First: piece, Count: 1}, Start: start, End: end}
	}
	x := &pipeline.Timeline{End: 100, Spans: [][]pipeline.Span{{pass(false, 0, 10, 20), pass(false, 1, 30, 40), pass(true, 0, 50, 60), pass(true, 1, 60, 70)}}}
	tasks := []pipeline.Task{{First: 0, Count: 2}, {Backward: true, First: 0, Count: 1}, {Backward: true, First: 1, Count: 1}}
	w := &Worker{}
	for at, want := range map[cluster.Time]int{0: 0, 20: 1, 40: 1, 60: 2, 70: 3, 200: 3} {
		w.Places = []Place{{Start: at}}
		for task, places := range w.Before(x, tasks, 0) {
			if (len(places) > 0) != (task == want) {
				t.Errorf("work at %d runs %d times before task %d, want before task %d", at, len(places), task, want)
			}
		}
	}
}

// A margin keeps a piece out of an idle time that it would fill.
func TestMargin(t *testing.T) {
	x := step(t, pipeline.GPipe)
	items := func(int) []Item { return []Item{{Name: "whole", Pieces: 1, Time: 18, Pipe: AnyPipe}} }
	for margin, want := range map[float64]cluster.Time{0: 0, 0.06: 18} {
		p, err := Assign(x, items, margin)
		if err != nil || p.Workers[0].Overrun != want {
			t.Errorf("margin %g: overrun %d, %v, want %d", margin, p.Workers[0].Overrun, err, want)
		}
	}
}

// Preconditioning prolongs every step, and an overrun the round.
func TestUtilisationOfLongerSteps(t *testing.T) {
	x := step(t, pipeline.GPipe)
	p, err := Assign(x, kfac, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, after := p.Workers[0].Utilisation(x, 2); math.Abs(after-(24+9)/44.) > 1e-12 {
		t.Errorf("utilisation %.4f with steps longer by 2, want %.4f", after, (24+9)/44.)
	}
	p, err = Assign(x, func(int) []Item { return []Item{{Name: "long", Pieces: 1, Time: 42}} }, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, after := p.Workers[0].Utilisation(x, 0); math.Abs(after-(24+42)/84.) > 1e-12 {
		t.Errorf("utilisation %.4f with an overrun of a step, want %.4f", after, (24+42)/84.)
	}
}

func TestItemsAreRefused(t *testing.T) {
	x := step(t, pipeline.GPipe)
	for _, item := range []Item{{Name: "self", Pieces: 1, Time: 1, After: []int{0}}, {Name: "none", Time: 1}} {
		if _, err := Assign(x, func(int) []Item { return []Item{item} }, 0); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", item.Name, err)
		}
	}
}

// A step uses the results of the round that ended last, whenever its work was done.
func TestStaleness(t *testing.T) {
	for refresh := 1; refresh <= 4; refresh++ {
		v := Versions[uint64]{Refresh: refresh}
		for s := uint64(0); s < 20; s++ {
			got, ok, err := v.At(s)
			round := s / uint64(refresh)
			if err != nil || ok != (round > 0) || ok && got != 100+round-1 {
				t.Errorf("rounds of %d, step %d: results %d, %v, %v, want those of round %d", refresh, s, got, ok, err, round-1)
			}
			if read, ok := Published(s, refresh); ok {
				if age := s - read*uint64(refresh); age < uint64(refresh) || age > 2*uint64(refresh)-1 {
					t.Errorf("rounds of %d, step %d: results are %d steps old", refresh, s, age)
				}
			}
			if s%uint64(refresh) == (s/uint64(refresh)*7)%uint64(refresh) { // at some step of the round
				v.Put(s, 100+round)
			}
		}
	}
	v := Versions[int]{Refresh: 2}
	v.Put(1, 5)
	if _, _, err := v.At(4); exit.CodeOf(err) != exit.Bug {
		t.Errorf("a round without results: %v", err)
	}
}

// Delays of messages change neither which results a step uses nor their values.
func TestDelaysDoNotChangeResults(t *testing.T) {
	const ranks, steps, refresh = 3, 12, 3
	run := func(mode comm.Mode) (used [ranks][steps]float64) {
		err := comm.Run(ranks, mode, func(c *comm.Comm) error {
			v := Versions[float64]{Refresh: refresh}
			x := []float64{float64(c.Rank() + 1)}
			var r comm.Request
			in := make([]float64, 1)
			for s := range uint64(steps) {
				got, ok, err := v.At(s)
				if err != nil {
					return err
				}
				if ok {
					used[c.Rank()][s] = got
				}
				if s%refresh == 0 { // starts to receive the factor of the neighbour
					r = c.Recv((c.Rank()+1)%ranks, int(s), in)
					if err := c.Send((c.Rank()+ranks-1)%ranks, int(s), x).Wait(); err != nil {
						return err
					}
				}
				if r != nil && (r.Test() || s%refresh == refresh-1) { // as soon as it is here, or when the round ends
					if err := r.Wait(); err != nil {
						return err
					}
					v.Put(s, in[0]+float64(s/refresh))
					r = nil
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	want := run(comm.Parallel)
	if want[0][refresh] == 0 {
		t.Error("no results are used")
	}
	for seed := range uint64(30) {
		if got := run(comm.Replay(seed)); got != want {
			t.Errorf("seed %d: results %v, want %v", seed, got, want)
		}
	}
}

// A worker fills its idle times alone. What fits into none is left, as is what the first steps do not reach.
func TestFill(t *testing.T) {
	s, err := pipeline.GPipe(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Time(pipeline.EqualCosts(2, 2, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	// Worker 0 waits once, for 6: three pieces of 2 fit in a step, one of 7 in none.
	w, err := Fill(x, 0, []Item{{Name: "long", Pieces: 1, Time: 7, Pipe: AnyPipe}, {Name: "short", Pieces: 5, Time: 2, Pipe: AnyPipe}})
	if err != nil {
		t.Fatal(err)
	}
	gap := cluster.Time(0)
	for _, g := range x.Gaps(0) {
		gap = max(gap, g.End-g.Start)
	}
	if gap != 6 || w.Work() != 17 || w.Overrun != 0 {
		t.Fatalf("gaps %v, work %v, %+v", x.Gaps(0), w.Work(), w)
	}
	for steps, want := range map[int]cluster.Time{0: 17, 1: 17 - 3*2, 2: 7, 9: 7} {
		if got := w.Left(steps); got != want {
			t.Errorf("after %d steps %v are left, want %v: %+v", steps, got, want, w.Places)
		}
	}
	if i := Inversion(3, 14, 7e12); i.Time != 2 || i.Pieces != 3 || i.Pipe != AnyPipe || i.Waits != Nothing {
		t.Errorf("%+v", i)
	}
}
