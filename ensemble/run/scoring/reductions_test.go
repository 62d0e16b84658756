package scoring

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// The row of the season names the best listed baseline, with its CRPS in the scores, if it is better than the last step
// before information: here if the latter has a far too large spread.
func TestBetterBaselineIsNamed(t *testing.T) {
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	var inits []ensemble.Init
	for i := range 20 {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+10*i, 0, 0, 0, 0, time.UTC)))
	}
	const used, full = 2, 8
	points := grid.Size()
	fill := func(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }
	for _, scale := range []float64{1, 100} {
		split := &skill.Corrections{Bias: fill(points, 0), EMOS: slices.Repeat([]float64{0, 1, 1, 0}, points), Dispersion: slices.Repeat([]float64{1, 0}, points), SpreadFactor: fill(points, 1), Members: full,
			Seasonal: &baseline.GridEMOS{Theta: fill(6*points, 0), MeanBar: fill(points, 0), Scale: scale}}
		s, err := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, Grid: grid, DDOF: 1, Inits: inits, Source: score.FromProducts,
			Bootstrap: significance.Bootstrap{Resamples: 20, Confidence: 0.95}, Selection: Selection{Seasons: true},
			Baselines: &task.Baselines{Fits: []task.Baseline{{Method: baseline.MethodByID("emos_grid"), Fit: momentsOnly{}}}, Reduction: split}}.
			Begin(Shape{Mean: true, Spread: true, Obs: true, Used: used, Full: full})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		field := func(sigma float64) []float32 {
			out := make([]float32, points)
			for p := range out {
				out[p] = float32(sigma * r.NormFloat64())
			}
			return out
		}
		for _, init := range inits {
			c := Case{Init: init, Obs: field(1), Used: []int{0, 1}, Mean: field(0), Sigma: slices.Repeat([]float32{1}, points), Spread: slices.Repeat([]float32{1}, points)}
			for range full {
				c.Members = append(c.Members, field(1))
			}
			d, err := s.Sum(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Join(d); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.distributions.Result(s.Bootstrap, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.splitReductions(all); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, x := range all.SkillComponents {
			named := scale > 1 && x.Component == "season"
			if (x.Baseline == "emos_grid") != named || named == math.IsNaN(float64(x.BaselineCRPS)) {
				t.Errorf("scale %g: %+v", scale, x)
			}
			if !named {
				continue
			}
			found++
			i := slices.IndexFunc(all.Scores, func(v score.Value) bool {
				return v.System == "emos_grid" && v.ID == score.CRPSGauss.ID && v.Season == x.Season && v.Region == x.Region
			})
			if i < 0 || math.Abs(float64(all.Scores[i].Value-x.BaselineCRPS)) > 1e-9 {
				t.Errorf("%s: CRPS %g of the baseline is not that of its scores", x.Season, x.BaselineCRPS)
			}
		}
		if want := map[float64]int{1: 0, 100: 4}[scale]; found != want {
			t.Errorf("scale %g: %d rows name a baseline, want %d", scale, found, want)
		}
	}
}
