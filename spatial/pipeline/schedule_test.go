package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// must returns a checked schedule.
func must(t *testing.T) func(*Schedule, error) *Schedule {
	return func(s *Schedule, err error) *Schedule {
		t.Helper()
		if err == nil {
			err = s.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// spanOf is the span of equal stages without messages, in units of the forward pass, and the mean share of bubbles.
func spanOf(t *testing.T, s *Schedule, backward cluster.Time) (int, float64) {
	t.Helper()
	x, err := s.Time(EqualCosts(s.Stages, 1, backward, 0))
	if err != nil {
		t.Fatal(err)
	}
	return int(x.End), x.MeanBubbles()
}

// Spans and bubbles of equal stages, by simulation and by the formulas of the paper.
//
// Source: Li and Hoefler 2021, arXiv:2107.06925, table 2.
func TestSpans(t *testing.T) {
	for _, c := range []struct {
		d, n, one, chimera, oneB2, chimeraB2 int
	}{
		{2, 2, 6, 4, 9, 6}, {4, 4, 14, 10, 21, 16}, {4, 8, 22, 18, 33, 30}, {4, 16, 38, 34, 57, 58}, {6, 6, 22, 16, 33, 26},
		{8, 8, 30, 22, 45, 36}, {8, 16, 46, 38, 69, 66}, {8, 32, 78, 70, 117, 126}, {16, 16, 62, 46, 93, 76},
	} {
		for _, x := range []struct {
			name        string
			s           *Schedule
			span, spanB int
		}{
			{"GPipe", must(t)(GPipe(c.d, c.n)), c.one, c.oneB2},
			{"1F1B", must(t)(OneFOneB(c.d, c.n)), c.one, c.oneB2},
			{"Chimera", must(t)(Chimera(c.d, c.n, ChimeraOptions{})), c.chimera, c.chimeraB2},
		} {
			for b, want := range map[cluster.Time]int{1: x.span, 2: x.spanB} {
				got, bubbles := spanOf(t, x.s, b)
				work := c.n * (1 + int(b))
				if share := 1 - float64(work)/float64(want); got != want || math.Abs(bubbles-share) > 1e-12 {
					t.Errorf("%s, %d stages, %d micro-batches, backward %d: span %d, bubbles %.4f, want %d and %.4f", x.name, c.d, c.n, b, got, bubbles, want, share)
				}
			}
		}
		d, n := float64(c.d), float64(c.n)
		share := func(span, work int) float64 { return 1 - float64(work)/float64(span) }
		if got, want := share(c.one, 2*c.n), (d-1)/(n+d-1); math.Abs(got-want) > 1e-12 {
			t.Errorf("GPipe of %d, %d: %.4f, formula %.4f", c.d, c.n, got, want)
		}
		if got, want := share(c.chimera, 2*c.n), (d-2)/(2*n+d-2); math.Abs(got-want) > 1e-12 {
			t.Errorf("Chimera of %d, %d: %.4f, formula %.4f", c.d, c.n, got, want)
		}
		if got, want := c.chimeraB2, (5*c.d-4)+(c.n/c.d-1)*(4*c.d-2); got != want {
			t.Errorf("Chimera of %d, %d, backward 2: span %d, formula %d", c.d, c.n, got, want)
		}
	}
}

// Shares of bubbles as printed in the table of the specification, to four digits.
func TestPrintedBubbles(t *testing.T) {
	for _, c := range []struct {
		d, n      int
		b         cluster.Time
		one, both float64
	}{{2, 2, 1, .3333, 0}, {4, 4, 1, .4286, .2}, {8, 16, 1, .3043, .1579}, {4, 16, 2, .1579, .1724}, {8, 32, 2, .1795, .2381}, {16, 16, 2, .4839, .3684}} {
		_, one := spanOf(t, must(t)(OneFOneB(c.d, c.n)), c.b)
		_, both := spanOf(t, must(t)(Chimera(c.d, c.n, ChimeraOptions{})), c.b)
		if math.Abs(one-c.one) > 5e-5 || math.Abs(both-c.both) > 5e-5 {
			t.Errorf("%d stages, %d micro-batches, backward %d: %.4f and %.4f, want %.4f and %.4f", c.d, c.n, c.b, one, both, c.one, c.both)
		}
	}
}

func TestPeakActivations(t *testing.T) {
	for d, want := range map[int][]int{2: {2, 2}, 4: {3, 4, 4, 3}, 6: {4, 5, 6, 6, 5, 4}, 8: {5, 6, 7, 8, 8, 7, 6, 5},
		16: {9, 10, 11, 12, 13, 14, 15, 16, 16, 15, 14, 13, 12, 11, 10, 9}} {
		if got := must(t)(Chimera(d, d, ChimeraOptions{})).PeakActivations(); !slices.Equal(got, want) {
			t.Errorf("Chimera of %d stages keeps %v, want %v", d, got, want)
		}
		one, all := must(t)(OneFOneB(d, 2*d)).PeakActivations(), must(t)(GPipe(d, 2*d)).PeakActivations()
		for stage := range d {
			if one[stage] != d-stage || all[stage] != 2*d {
				t.Errorf("stage %d of %d: 1F1B keeps %d, GPipe %d, want %d and %d", stage, d, one[stage], all[stage], d-stage, 2*d)
			}
		}
	}
	s := must(t)(OneFOneB(2, 4))
	if got := s.PeakBytes([]int64{100, 7}); !slices.Equal(got, []int64{200, 7}) {
		t.Errorf("1F1B keeps %v bytes, want [200 7]", got)
	}
}

// Several pairs: no collision (Check), the span in slots, the weights, and the peak of activations
// D − D/2q + 1 to D.
func TestPairs(t *testing.T) {
	for _, c := range []struct{ d, q, span int }{
		{4, 1, 10}, {4, 2, 8}, {6, 3, 12}, {8, 1, 22}, {8, 2, 18}, {8, 4, 16}, {12, 2, 28}, {12, 3, 26}, {16, 4, 34},
	} {
		s := must(t)(Chimera(c.d, c.d, ChimeraOptions{Pairs: c.q}))
		span, bubbles := spanOf(t, s, 1)
		if want := float64(c.d-2*c.q) / float64(2*c.q*c.d+c.d-2*c.q); span != c.span || math.Abs(bubbles-want) > 1e-12 {
			t.Errorf("%d stages, %d pairs: span %d, bubbles %.4f, want %d and %.4f", c.d, c.q, span, bubbles, c.span, want)
		}
		if s.Pipes() != 2*c.q {
			t.Errorf("%d pairs have %d copies of the weights", c.q, s.Pipes())
		}
		peaks := s.PeakActivations()
		if low, high := slices.Min(peaks), slices.Max(peaks); low != c.d-c.d/(2*c.q)+1 || high != c.d {
			t.Errorf("%d stages, %d pairs keep %d to %d micro-batches, want %d to %d", c.d, c.q, low, high, c.d-c.d/(2*c.q)+1, c.d)
		}
	}
}

// Each worker holds one stage of each pipe, and Stage is the inverse of Worker.
func TestPlacement(t *testing.T) {
	s := must(t)(Chimera(8, 8, ChimeraOptions{Pairs: 2}))
	for k := range s.Pipes() {
		for stage := range s.Stages {
			w := s.Worker(k, stage)
			if s.Stage(k, w) != stage {
				t.Errorf("pipe %d: stage %d is on worker %d, which holds stage %d", k, stage, w, s.Stage(k, w))
			}
		}
	}
	if got := []int{s.Worker(0, 0), s.Worker(1, 0), s.Worker(2, 0), s.Worker(3, 0)}; !slices.Equal(got, []int{0, 7, 4, 3}) {
		t.Errorf("first stages are on workers %v, want 0, 7, 4 and 3", got)
	}
}

// Fewer micro-batches than stages are shared evenly by the pipes, and every number of them is a valid step.
func TestFewMicroBatches(t *testing.T) {
	for d := 2; d <= 12; d += 2 {
		for q := 1; q <= d/2; q++ {
			if d/2%q != 0 {
				continue
			}
			for n := 1; n <= d; n++ {
				s := must(t)(Chimera(d, n, ChimeraOptions{Pairs: q}))
				count := make([]int, 2*q)
				for i := range n {
					count[s.PipeOf(i)]++
				}
				if slices.Max(count)-slices.Min(count) > 1 {
					t.Errorf("%d stages, %d micro-batches, %d pairs: pipes have %v", d, n, q, count)
				}
			}
			must(t)(GPipe(d, q))
			must(t)(OneFOneB(d, q))
		}
	}
}

// Forward passes of two pieces have as many bubbles in all steps as in the first unit, 2(D−2) forward passes, so they beat
// both 1F1B and concatenation from two units on.
func TestDoubledForward(t *testing.T) {
	for _, d := range []int{2, 4, 6, 8, 16} {
		for k := 2; k <= 8; k += 2 {
			n := k * d
			s := must(t)(Chimera(d, n, ChimeraOptions{Scaling: DoubleForward}))
			span, _ := spanOf(t, s, 2)
			if want := 3*n + 2*(d-2); span != want {
				t.Errorf("%d stages, %d micro-batches: span %d, want %d", d, n, span, want)
			}
			one, _ := spanOf(t, must(t)(OneFOneB(d, n)), 2)
			concat, _ := spanOf(t, must(t)(Chimera(d, n, ChimeraOptions{})), 2)
			if d > 2 && (span >= one || span >= concat) {
				t.Errorf("%d stages, %d micro-batches: span %d, 1F1B %d, concatenated %d", d, n, span, one, concat)
			}
			if most := slices.Max(s.PeakActivations()); most > 2*d+2 {
				t.Errorf("%d stages, %d micro-batches keep %d, more than two units", d, n, most)
			}
			// the same tasks of half micro-batches, in half the time
			half := must(t)(Chimera(d, n/2, ChimeraOptions{Scaling: HalveBackward}))
			x, err := half.Time(EqualCosts(d, 2, 4, 0))
			if err != nil || int(x.End) != span || half.Pieces() != n {
				t.Errorf("%d stages, %d micro-batches in halves: %v, %v, %d pieces", d, n/2, x.End, err, half.Pieces())
			}
		}
	}
}

// Sizes without a schedule are refused with the nearest that work.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		d, n int
		o    ChimeraOptions
		fix  string
	}{
		{5, 10, ChimeraOptions{}, "4 or 6 stages"},
		{1, 1, ChimeraOptions{}, "2 stages"},
		{8, 8, ChimeraOptions{Pairs: 3}, "2 pairs"},
		{12, 12, ChimeraOptions{Pairs: 5}, "6 pairs"},
		{4, 4, ChimeraOptions{Pairs: -1}, "1 pairs"},
		{4, 6, ChimeraOptions{}, "4 or 8 micro-batches"},
		{4, 12, ChimeraOptions{Scaling: DoubleForward}, "8 or 16 micro-batches"},
		{4, 2, ChimeraOptions{Scaling: HalveBackward}, "4 micro-batches"},
		{8, 16, ChimeraOptions{Scaling: DoubleForward, Pairs: 2}, "1 pair"},
		{0, 4, ChimeraOptions{}, "1 stages and 4"},
	} {
		_, err := Chimera(c.d, c.n, c.o)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%d stages, %d micro-batches, %+v: %v, want a fix with %q", c.d, c.n, c.o, err, c.fix)
		}
	}
	if _, err := GPipe(3, 0); exit.CodeOf(err) != exit.Usage {
		t.Errorf("GPipe without micro-batches: %v", err)
	}
}

// Messages delay a step by no more than the model T = (f+p)Cf + (b+p)Cb with Cf = N, Cb = N+D−2 states for N = D, and by no
// less than one crossing of the pipeline each way.
//
// Source: Li and Hoefler 2021, arXiv:2107.06925, section 3.4.
func TestMessages(t *testing.T) {
	const f, b = 100, 200
	for _, d := range []int{2, 4, 8, 16} {
		s := must(t)(Chimera(d, d, ChimeraOptions{}))
		for _, p := range []cluster.Time{0, 1, 10, 50} {
			x, err := s.Time(EqualCosts(d, f, b, p))
			if err != nil {
				t.Fatal(err)
			}
			n := cluster.Time(d)
			if model := (f+p)*n + (b+p)*(2*n-2); x.End > model || p == 0 && x.End != model {
				t.Errorf("%d stages, messages of %d: %d, model %d", d, p, x.End, model)
			}
			if least := (f + b + 2*p) * (n - 1); x.End < least {
				t.Errorf("%d stages, messages of %d: %d, less than %d", d, p, x.End, least)
			}
		}
	}
}

// A schedule with a task removed, doubled, moved or in another order is found.
func TestCheckFindsFaults(t *testing.T) {
	for name, damage := range map[string]func(s *Schedule){
		"lost":       func(s *Schedule) { s.Tasks[1] = s.Tasks[1][1:] },
		"twice":      func(s *Schedule) { s.Tasks[0] = append(s.Tasks[0], s.Tasks[0][0]) },
		"elsewhere":  func(s *Schedule) { s.Tasks[0][0].Stage++ },
		"wrong pipe": func(s *Schedule) { s.Tasks[0][0].First = 3 },
		"deadlock":   func(s *Schedule) { slices.Reverse(s.Tasks[2]) },
	} {
		s := must(t)(Chimera(4, 4, ChimeraOptions{}))
		damage(s)
		if s.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := must(t)(GPipe(1, 2))
	s.Tasks[0][2], s.Tasks[0][3] = s.Tasks[0][3], s.Tasks[0][2]
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "after the backward pass of piece 1") {
		t.Errorf("sums in another order: %v", err)
	}
}

func ExampleChimera() {
	s, err := Chimera(4, 4, ChimeraOptions{})
	if err != nil {
		panic(err)
	}
	t, err := s.Time(EqualCosts(4, 1, 2, 0))
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Tasks[0])
	fmt.Printf("bubbles %.0f %%\n", 100*t.MeanBubbles())
	// Output:
	// [F0.0[0] F0.0[1] F1.3[2] B1.3[2] F1.3[3] B1.3[3] B0.0[0] B0.0[1]]
	// bubbles 25 %
}
