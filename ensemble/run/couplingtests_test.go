package run

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
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

// In the linear example of Roberts 2026, whose raw members are reliable, the method of the least
// fair CRPS is told from the members that it was given by the table beside its scores, though its
// fair CRPS is better.
func TestCoupledLinearExample(t *testing.T) {
	const members, rho, dates = 10, 4.0, 30
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	spread := math.Sqrt(1+rho/(members*rho+1)) * members / math.Sqrt((members-1)*(members-2)) // of the least expected fair CRPS
	coupled := model.Baseline{Method: &baseline.Method{ID: "coupled", Looks: baseline.AtMembers}, Fit: linearMembers{rho / (rho + 1./members), spread}}
	alone := model.Baseline{Method: &baseline.Method{ID: "alone", Looks: baseline.AtMembers}, Fit: linearMembers{1, 1}}
	var inits []ensemble.Init
	for i := range dates {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)))
	}
	s, err := judgement{target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, grid: grid, ddof: 1, inits: inits, of: score.OfProducts,
		baselines: &model.Baselines{Fits: []model.Baseline{alone, coupled}}, bootstrap: score.Bootstrap{Resamples: 200, BlockLength: 1, Confidence: 0.999}}.
		begin(shape{Obs: true, Used: members, Full: members})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
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
		d, err := s.sum(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.join(d); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.result()
	if err != nil {
		t.Fatal(err)
	}
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

// A training tests the members that stand for its network's distribution, and those of baselines;
// a verification of its products tells the same of them, and looks at the members among the products.
func TestMembersOfSystemsAreTested(t *testing.T) {
	f := smallData(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := quick(t, f, encoding("data.members.use=4", "data.members.sampling=fixed", "model.encoder.channels=2", "train.epochs=1", "baselines=[mbm, quantile_map, emos]")...)
	trained, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	found := func(r *score.Result, of string) map[string][]score.Coupling {
		tests := map[string][]score.Coupling{}
		for _, x := range r.Coupling {
			if x.Of == of {
				tests[x.System] = append(tests[x.System], x)
			}
		}
		return tests
	}
	names := func(rows []score.Coupling) (out []string) {
		for _, r := range rows {
			out = append(out, r.Test)
		}
		return out
	}
	all := []string{"jacobian", "r", "size_crps", "size_spread", "cross_pair"}
	for _, system := range []string{systemMembers, "mbm"} {
		rows := found(trained.Scores, score.OfTraining)[system]
		if got := names(rows); !slices.Equal(got, all) {
			t.Errorf("training tests %s by %q, want %q", system, got, all)
			continue
		}
		if j := rows[0]; j.Passed || j.Value != 4*3 || j.N != 3 || j.Members != 4 {
			t.Errorf("%s: each of 4 members is made of all: %+v", system, j)
		}
	}
	if _, tested := found(trained.Scores, score.OfTraining)["emos"]; tested {
		t.Error("emos makes no members")
	}
	predicted, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test",
		Publish: config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct}}})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(context.Background(), VerifyOptions{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	if got := found(verified.Scores, score.OfTraining)[systemMembers]; !slices.EqualFunc(got, found(trained.Scores, score.OfTraining)[systemMembers], func(a, b score.Coupling) bool { return a.Test == b.Test && a.Value-b.Value < 1e-9 }) {
		t.Errorf("the training's tests became %+v", got)
	}
	own := found(verified.Scores, score.OfProducts)
	if got := names(own[systemMembers]); !slices.Equal(got, []string{"r"}) {
		t.Errorf("products are tested by %q, want r", got)
	}
	r := found(trained.Scores, score.OfTraining)[systemMembers][1]
	if d := math.Abs(float64(own[systemMembers][0].Value - r.Value)); !(d < 1e-3*float64(r.Value)) {
		t.Errorf("R is %g of the products, %g of the training", own[systemMembers][0].Value, r.Value)
	}
	if got := names(own["mbm"]); !slices.Equal(got, all) {
		t.Errorf("verification tests mbm by %q", got)
	}
	if v := verified.Scores.Find("crps_fair", systemMembers, "t", "850hPa", "48h"); v == nil || v.Members != 4 {
		t.Errorf("fair CRPS of the members: %+v", v)
	}
}
