package scoring

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// linearMembers is b·mean + c·(x−mean) of raw members x: each by itself if b = c.
type linearMembers struct{ b, c float64 }

func (l linearMembers) Arrays() []baseline.Array { return nil }

func (l linearMembers) Forecast(r baseline.Raw) [][]float32 {
	out := make([][]float32, len(r.Members))
	for i, x := range r.Members {
		out[i] = make([]float32, len(x))
		for p, v := range x {
			if l.b == l.c {
				out[i][p] = float32(l.b * float64(v))
				continue
			}
			m := float64(r.Mean[p])
			out[i][p] = float32(l.b*m + l.c*(float64(v)-m))
		}
	}
	return out
}

// resultOf scores cases.
func resultOf(t *testing.T, s *Scoring, cases []Case) *score.Result {
	t.Helper()
	for _, c := range cases {
		d, err := s.Sum(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Join(d); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.Result()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// In the linear example of Roberts 2026, whose raw members are reliable, the method with the least fair CRPS
// is distinguished from the input members by its coupling test, although its fair CRPS is better.
func TestCoupledLinearExample(t *testing.T) {
	const members, rho, dates = 10, 4.0, 30
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	spread := math.Sqrt(1+rho/(members*rho+1)) * members / math.Sqrt((members-1)*(members-2)) // of the least expected fair CRPS
	coupled := task.Baseline{Method: &baseline.Method{ID: "coupled", Predictors: baseline.MemberPredictors}, Fit: linearMembers{rho / (rho + 1./members), spread}}
	alone := task.Baseline{Method: &baseline.Method{ID: "alone", Predictors: baseline.MemberPredictors}, Fit: linearMembers{1, 1}}
	var inits []ensemble.Init
	for i := range dates {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)))
	}
	s, err := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, Grid: grid, DDOF: 1, Inits: inits, Source: score.FromProducts,
		Baselines: &task.Baselines{Fits: []task.Baseline{alone, coupled}}, Bootstrap: significance.Bootstrap{Resamples: 200, BlockLength: 1, Confidence: 0.999}}.
		Begin(Shape{Obs: true, Used: members, Full: members})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
	var cases []Case
	for _, init := range inits {
		c := Case{Init: init, Obs: make([]float32, grid.Size())}
		for m := range members {
			c.Members, c.Used = append(c.Members, make([]float32, grid.Size())), append(c.Used, m)
		}
		for p := range c.Obs {
			signal := math.Sqrt(rho) * r.NormFloat64()
			c.Obs[p] = float32(signal + r.NormFloat64())
			for m := range members {
				c.Members[m][p] = float32(signal + r.NormFloat64())
			}
		}
		cases = append(cases, c)
	}
	out := resultOf(t, s, cases)
	fair := func(system string) float64 {
		for _, v := range out.Scores {
			if v.ID == score.CRPSFair.ID && v.System == system {
				return float64(v.Value)
			}
		}
		t.Fatalf("%s has no fair CRPS", system)
		return 0
	}
	if fair("coupled") >= fair("alone") {
		t.Errorf("the fair CRPS is %.4f coupled and %.4f alone; this example shows nothing", fair("coupled"), fair("alone"))
	}
	var failed []string
	for _, c := range out.Coupling {
		if c.Decided && !c.Passed {
			failed = append(failed, c.System+" "+c.Test)
		}
	}
	for _, want := range []string{"coupled jacobian", "coupled r", "coupled size_crps", "coupled cross_pair"} {
		if !slices.Contains(failed, want) {
			t.Errorf("%s passes; failed: %q", want, failed)
		}
	}
	if slices.ContainsFunc(failed, func(f string) bool { return strings.HasPrefix(f, "alone ") }) || len(out.Coupling) != 14 {
		t.Errorf("of %d tests failed %q; want 7 for each method and none of alone", len(out.Coupling), failed)
	}
}

// Published members are tested on all dates; systems that are calibrated again for the tests on some.
func TestPublishedMembersOnAllDates(t *testing.T) {
	const members, dates = 4, couplingDates + 8
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	var inits []ensemble.Init
	for i := range dates {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)))
	}
	alone := task.Baseline{Method: &baseline.Method{ID: "alone", Predictors: baseline.MemberPredictors}, Fit: linearMembers{1, 1}}
	s, err := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, Grid: grid, DDOF: 1, Inits: inits, Source: score.FromProducts,
		Baselines: &task.Baselines{Fits: []task.Baseline{alone}}, Bootstrap: significance.Bootstrap{Resamples: 20, BlockLength: 1, Confidence: 0.95}}.
		Begin(Shape{Obs: true, Used: members, Full: members, Calibrated: members})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
	field := func() []float32 {
		out := make([]float32, grid.Size())
		for p := range out {
			out[p] = float32(r.NormFloat64())
		}
		return out
	}
	var cases []Case
	for _, init := range inits {
		c := Case{Init: init, Obs: field()}
		for m := range members {
			c.Members, c.Used, c.Calibrated = append(c.Members, field()), append(c.Used, m), append(c.Calibrated, field())
		}
		cases = append(cases, c)
	}
	out := resultOf(t, s, cases)
	n := map[string]int{}
	for _, c := range out.Coupling {
		n[c.System] = c.N
	}
	if n[SystemMembers] != dates || n["alone"] != couplingDates || len(n) != 2 {
		t.Errorf("tests on %v dates, want %d of published members and %d of the baseline", n, dates, couplingDates)
	}
}
