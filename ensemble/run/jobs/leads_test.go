package jobs

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Several leads in one pass: training scores each, prediction publishes each in every format, and
// verification of the products reproduces the scores, for all treatments of the lead axis.
func TestTargetLeads(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		name   string
		set    []string
		scores map[string][]string
	}{
		{"channels", runtest.TwoLeads("train.loss.lead_weights=[1, 0.5]", "baselines=[emos, emos_point]"), map[string][]string{scoring.SystemNetwork: {"crps_gauss", "rmse"}, "emos_point": {"crps_gauss"}}},
		{"trajectories", runtest.Trajectories("train.loss.fairness=cross_pair", "model.maps=true", "model.encoder.input=[field, noise]"), map[string][]string{scoring.SystemNetwork: {"rmse"}, scoring.SystemMembers: {"crps_fair"}}},
	} {
		runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
		cfg := demotest.Config(t, f, c.set...)
		trained, err := train.Run(context.Background(), train.Options{Config: cfg, RunDir: runDir, Version: "test"})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		publish := config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct, config.QuantilesProduct}, Quantiles: []float64{0.5}}
		o := predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Publish: publish}
		if c.name == "channels" {
			o.Formats = append(o.Formats, product.GRIB2)
		}
		predicted, err := predict.Run(context.Background(), o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, ending := range []string{".nc", ".grib2"} {
			if ending == ".grib2" && c.name != "channels" {
				continue
			}
			files := slices.DeleteFunc(slices.Clone(predicted.Outputs), func(f string) bool { return !strings.HasSuffix(f, ending) })
			verified, err := verify.Run(context.Background(), verify.Options{Forecast: files, Analysis: f.Analyses, Members: f.GRIB2[17:], RunDir: runDir})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if c.name == "trajectories" { // scored as wholes at the last lead
				for _, system := range []string{scoring.SystemMembers, "raw4"} {
					for _, id := range score.DefaultForLeads {
						a, b := trained.Scores.Find(id, system, "t", "850hPa", "48h"), verified.Scores.Find(id, system, "t", "850hPa", "48h")
						if a == nil || b == nil || !(math.Abs(float64(a.Value-b.Value)) < 1e-3*float64(a.Value)) || trained.Scores.Find(id, system, "t", "850hPa", "24h") != nil {
							t.Errorf("%s of %s: %+v from training, %+v from the products", id, system, a, b)
						}
					}
				}
			}
			for system, ids := range c.scores {
				for _, id := range ids {
					for _, lead := range []string{"24h", "48h"} {
						a, b := trained.Scores.Find(id, system, "t", "850hPa", lead), verified.Scores.Find(id, system, "t", "850hPa", lead)
						if a == nil || b == nil || !(math.Abs(float64(a.Value-b.Value)) < 1e-3*float64(a.Value)) {
							t.Errorf("%s: %s of %s at %s: %+v from training, %+v from %s products", c.name, id, system, lead, a, b, ending)
						}
					}
					a, b := trained.Scores.Find(id, system, "t", "850hPa", "24h"), trained.Scores.Find(id, system, "t", "850hPa", "48h")
					if a != nil && b != nil && a.Value == b.Value {
						t.Errorf("%s: %s of %s is the same at both leads", c.name, id, system)
					}
				}
			}
		}
		for _, lead := range []string{"24h", "48h"} {
			i := slices.IndexFunc(trained.Scores.Coupling, func(x score.Coupling) bool {
				return x.System == scoring.SystemMembers && x.Test == "jacobian" && x.Lead == lead
			})
			if i < 0 || c.name == "trajectories" && !trained.Scores.Coupling[i].Passed {
				t.Errorf("%s: members at %s depend on each other: %+v", c.name, lead, trained.Scores.Coupling)
			}
		}
		fc := samplestest.ReadInit(t, cfg, f.NetCDF[17])
		got := predictOf(t, runDir, fc, predict.Options{Publish: publish})
		if c.name != "trajectories" {
			checkRankOrder(t, fc, cfg.Data.TargetLeads, got)
			continue
		}
		checkMemberIndependence(t, runDir, fc, got, publish)
		from := []int{2, 0, 3, 1} // exchanged members are corrected as before, at every lead
		exchanged := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members, from...), predict.Options{Publish: publish})
		for _, lead := range cfg.Data.TargetLeads {
			for m, was := range from {
				if len(got[fmt.Sprint(lead, " ", fc.Members[was])]) == 0 || !runtest.EqualBits(exchanged[fmt.Sprint(lead, " ", fc.Members[m])], got[fmt.Sprint(lead, " ", fc.Members[was])]) {
					t.Errorf("member %s at %s is not what member %s was", fc.Members[m], lead, fc.Members[was])
				}
			}
			if !runtest.EqualBits(exchanged[lead.String()+" mean"], got[lead.String()+" mean"]) {
				t.Errorf("the mean at %s is another one", lead)
			}
		}
	}
}

// checkMemberIndependence checks that a perturbation of a member's first field changes this member at later
// leads, and no other member by a single bit.
func checkMemberIndependence(t *testing.T, runDir string, fc *ensemble.Forecast, before map[string][]float32, publish config.Publishing) {
	t.Helper()
	other := *fc
	other.Values = slices.Clone(fc.Values)
	for p := range other.Field(0, 1, 0, 0) {
		other.Field(0, 1, 0, 0)[p] += 3
	}
	after := predictOf(t, runDir, &other, predict.Options{Publish: publish})
	for _, lead := range []string{"24h", "48h"} {
		for i, m := range fc.Members {
			if key := fmt.Sprint(lead, " ", m); runtest.EqualBits(after[key], before[key]) == (i == 1) {
				t.Errorf("a change of member %s at 0h, member %s at %s: the same bits is %v", fc.Members[1], m, lead, i == 1)
			}
		}
	}
}

// checkRankOrder checks that calibrated members have the rank order of the raw ones at every lead, so that
// each is a trajectory, and rank correlations in time equal those of the raw members.
func checkRankOrder(t *testing.T, fc *ensemble.Forecast, leads []ensemble.Lead, got map[string][]float32) {
	t.Helper()
	var changed int
	for _, lead := range leads {
		at := slices.Index(fc.Axes.Leads, lead)
		for i, a := range fc.Members {
			for j, b := range fc.Members {
				x, y := fc.Field(at, i, 0, 0), fc.Field(at, j, 0, 0)
				cx, cy := got[fmt.Sprint(lead, " ", a)], got[fmt.Sprint(lead, " ", b)]
				if i > 2 || j > 2 { // of the members that are input
					continue
				}
				for p := range x {
					if x[p] < y[p] && cx[p] > cy[p] {
						t.Fatalf("at %s, point %d: raw members %g < %g, calibrated %g > %g", lead, p, x[p], y[p], cx[p], cy[p])
					}
					if cx[p] != x[p] {
						changed++
					}
				}
			}
		}
	}
	if changed == 0 {
		t.Error("calibrated members are the raw ones")
	}
}

// A spread target after the last lead that is read: training takes its reference at that lead, prediction
// needs no field of it.
func TestTargetAfterLastLead(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "model.head=spread", "train.loss.kind=l1", "train.loss.spread=0", "data.leads=[0h, 24h]", "data.target_leads=[48h]", "train.networks=1", "train.epochs=2")
	trained, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if a := trained.Scores.Find("spread_rmse", scoring.SystemNetwork, "t", "850hPa", "48h"); a == nil || !(a.Value > 0) {
		t.Errorf("scores %+v", trained.Scores)
	}
	whole := samplestest.ReadInit(t, demotest.Config(t, f), f.NetCDF[17])
	if !slices.Equal(whole.Axes.Leads, []ensemble.Lead{0, ensemble.Lead(24 * time.Hour), ensemble.Lead(48 * time.Hour)}) {
		t.Fatal(whole.Axes.Leads)
	}
	early := *whole
	early.Axes.Leads = whole.Axes.Leads[:2]
	early.Values = whole.Values[:len(whole.Values)/3*2]
	got := predictOf(t, runDir, &early, predict.Options{})[string(product.EnsembleSpread)]
	want := predictOf(t, runDir, whole, predict.Options{})[string(product.EnsembleSpread)]
	if len(got) == 0 || !runtest.EqualBits(got, want) {
		t.Errorf("%d values of the spread from fields up to 24 h, of all of them %d others", len(got), len(want))
	}
	out := t.TempDir()
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{scoring.SystemNetwork, scoring.SystemAffine, "raw3"} { // the affine one goes on from 24 h too
		a, b := trained.Scores.Find("spread_rmse", system, "t", "850hPa", "48h"), verified.Scores.Find("spread_rmse", system, "t", "850hPa", "48h")
		if a == nil || b == nil || !(math.Abs(float64(a.Value-b.Value)) < 1e-3*float64(a.Value)) {
			t.Errorf("%s: %+v from training, %+v from the products", system, a, b)
		}
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil || m.Task.Targets[0] != (task.Target{Variable: "t", Lead: ensemble.Lead(48 * time.Hour)}) || len(m.Task.Features.Axes.Leads) != 2 {
		t.Errorf("the model's task %+v, %v", m.Task.Targets, err)
	}
}

// Networks with leads as batch rows take the same steps on shards of fields and batches as on complete ones.
func TestLeadsOnParts(t *testing.T) {
	traintest.CheckLossesOnMeshes(t, runtest.Trajectories("train.loss.fairness=cross_pair", "model.maps=true", "train.mesh=data:2 lat:2"), runtest.TwoLeads("model.lead_axis=batch", "model.conditions=[lead, hour]", "train.mesh=lon:3"))
}

// A training of trajectories that is stopped and resumed ends with the bits of an uninterrupted one.
func TestTrajectoriesResume(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.Trajectories("model.conditions=[lead]", "train.epochs=2")...)
	runDir := traintest.CheckResume(t, c, 3, 4)
	// This network is conditioned on leads, so it can predict fewer of them.
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	early := *fc
	early.Axes.Leads = fc.Axes.Leads[:2]
	early.Values = fc.Values[:len(fc.Values)/3*2]
	whole := predictOf(t, runDir, fc, predict.Options{})
	o := predict.Options{Policy: config.Policy{Leads: early.Axes.Leads}}
	part := predictOf(t, runDir, &early, o) // of 24 h only
	for _, m := range fc.Members {
		a, b := whole["24h "+m.String()], part[m.String()]
		if len(b) == 0 || runtest.EqualBits(a, b) {
			t.Fatalf("member %s from two leads is what it is from three: %v", m, len(b))
		}
		var change, sum float64
		for p, raw := range fc.Field(1, slices.Index(fc.Members, m), 0, 0) {
			change, sum = change+math.Abs(float64(a[p]-b[p])), sum+math.Abs(float64(a[p]-raw))
		}
		if !(change < 0.5*sum) {
			t.Errorf("member %s: corrections of %g differ by %g from two leads", m, sum, change)
		}
	}
	o.RunDir, o.Input, o.Out, o.Formats = runDir, f.NetCDF[17:18], t.TempDir(), []product.Format{product.NetCDF}
	for want, leads := range map[string][]ensemble.Lead{"needs at least two leads": {early.Axes.Leads[1]}, "does not have the requested leads": {0, 1}} {
		o.Policy.Leads = leads
		if _, err := predict.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("leads %v: %v", leads, err)
		}
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Conditions = nil
	if err := m.SelectLeads(early.Axes.Leads); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "needs all of its 3 leads") {
		t.Errorf("places that are learned: %v", err)
	}
}
