package scoring

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// momentsOnly is a forecast with mean and spread of the members that a baseline reads.
type momentsOnly struct{}

func (momentsOnly) Arrays() []baseline.Array { return nil }

func (momentsOnly) Forecast(r baseline.Raw) [][]float32 { return [][]float32{r.Mean, r.Std} }

// A baseline of the full ensemble reads members that the network does not read. It is scored only where there are as many as in
// its fit.
func TestBaselineOfFullEnsemble(t *testing.T) {
	const used, full = 3, 7
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
	c := Case{Init: ensemble.InitAt(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), Obs: make([]float32, grid.Size())}
	for m := range full {
		f := make([]float32, grid.Size())
		for p := range f {
			f[p] = float32(r.NormFloat64())
		}
		if c.Members = append(c.Members, f); m < used {
			c.Used = append(c.Used, m)
		}
	}
	grids := task.Baseline{Method: baseline.MethodByID("emos_grid"), Fit: momentsOnly{}}
	all := task.Baseline{Method: baseline.MethodByID("emos_grid_full"), Fit: momentsOnly{}}
	for _, fitted := range []int{full, full + 1} {
		s, err := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, Grid: grid, DDOF: 1, Inits: []ensemble.Init{c.Init}, Source: score.FromProducts,
			Baselines: &task.Baselines{Fits: []task.Baseline{grids, all}, Reduction: &skill.Corrections{Members: fitted}}}.
			Begin(Shape{Obs: true, Used: used, Full: full})
		if err != nil {
			t.Fatal(err)
		}
		var reads []int
		for i, y := range s.Systems[0] {
			if y.Name == grids.Method.ID || y.Name == all.Method.ID {
				reads = append(reads, y.MembersUsed)
				sample := s.distributionSamples(c, &score.Reference{})[i]
				mean, std := MeanStd(c.Members[:y.MembersUsed], 1)
				if sample.Mean[5] != mean[5] || sample.Spread[5] != std[5] {
					t.Errorf("%s forecasts %g ± %g, mean and spread of %d members are %g and %g", y.Name, sample.Mean[5], sample.Spread[5], y.MembersUsed, mean[5], std[5])
				}
			}
		}
		if want := map[int]int{full: 2, full + 1: 1}[fitted]; len(reads) != want || reads[len(reads)-1] != map[int]int{full: full, full + 1: used}[fitted] {
			t.Errorf("fitted to %d members: baselines read %v", fitted, reads)
		}
	}
}
