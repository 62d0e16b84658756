package run

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
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// twoLeads is a quick training for two leads.
func twoLeads(set ...string) []string {
	return slices.Concat([]string{"data.target_leads=[24h, 48h]", "train.networks=1", "train.epochs=2"}, set)
}

// trajectories is one of members that are corrected along their leads.
func trajectories(set ...string) []string {
	return twoLeads(giving(slices.Concat([]string{"model.kind=trajectory", "train.loss.kind=crps_members", "model.stages=1"}, set)...)...)
}

// Several leads in one pass: training scores each, prediction publishes each in every format, and a
// verification of the products finds the scores of the training, whatever form the network gives leads.
func TestTargetLeads(t *testing.T) {
	f := smallData(t)
	for _, c := range []struct {
		name   string
		set    []string
		scores map[string][]string
	}{
		{"channels", twoLeads("train.loss.leads=[1, 0.5]", "baselines=[emos, emos_point]"), map[string][]string{SystemNetwork: {"crps_gauss", "rmse"}, "emos_point": {"crps_gauss"}}},
		{"trajectories", trajectories("train.loss.fairness=cross_pair", "model.maps=true", "model.encoder.input=[field, noise]"), map[string][]string{SystemNetwork: {"rmse"}, systemMembers: {"crps_fair"}}},
	} {
		runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
		cfg := quick(t, f, c.set...)
		trained, err := Train(context.Background(), TrainOptions{Config: cfg, RunDir: runDir, Version: "test"})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		publish := config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct, config.QuantilesProduct}, Quantiles: []float64{0.5}}
		o := PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Publish: publish}
		if c.name == "channels" {
			o.Formats = append(o.Formats, product.GRIB2)
		}
		predicted, err := Predict(context.Background(), o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, ending := range []string{".nc", ".grib2"} {
			if ending == ".grib2" && c.name != "channels" {
				continue
			}
			files := slices.DeleteFunc(slices.Clone(predicted.Outputs), func(f string) bool { return !strings.HasSuffix(f, ending) })
			verified, err := Verify(context.Background(), VerifyOptions{Forecast: files, Analysis: f.Analyses, Members: f.GRIB2[17:], RunDir: runDir})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if c.name == "trajectories" { // scored as wholes at the last lead
				for _, system := range []string{systemMembers, "raw4"} {
					for _, id := range score.OfLeads {
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
				return x.System == systemMembers && x.Test == "jacobian" && x.Lead == lead
			})
			if i < 0 || c.name == "trajectories" && !trained.Scores.Coupling[i].Passed {
				t.Errorf("%s: members at %s know of each other: %+v", c.name, lead, trained.Scores.Coupling)
			}
		}
		fc := startWithMembers(t, cfg, f.NetCDF[17])
		got := predictOf(t, runDir, fc, PredictOptions{Publish: publish})
		if c.name != "trajectories" {
			ranksAreKept(t, fc, cfg.Data.TargetLeads, got)
			continue
		}
		knowsOfItself(t, runDir, fc, got, publish)
		from := []int{2, 0, 3, 1} // exchanged members are corrected as before, at every lead
		exchanged := predictOf(t, runDir, with(fc, fc.Members, from...), PredictOptions{Publish: publish})
		for _, lead := range cfg.Data.TargetLeads {
			for m, was := range from {
				if len(got[fmt.Sprint(lead, " ", fc.Members[was])]) == 0 || !equalBits(exchanged[fmt.Sprint(lead, " ", fc.Members[m])], got[fmt.Sprint(lead, " ", fc.Members[was])]) {
					t.Errorf("member %s at %s is not what member %s was", fc.Members[m], lead, fc.Members[was])
				}
			}
			if !equalBits(exchanged[lead.String()+" mean"], got[lead.String()+" mean"]) {
				t.Errorf("the mean at %s is another one", lead)
			}
		}
	}
}

// knowsOfItself: a change of a member's first field reaches that member at later leads, and no other, by a
// single bit.
func knowsOfItself(t *testing.T, runDir string, fc *ensemble.Forecast, before map[string][]float32, publish config.Publishing) {
	t.Helper()
	other := *fc
	other.Values = slices.Clone(fc.Values)
	for p := range other.Field(0, 1, 0, 0) {
		other.Field(0, 1, 0, 0)[p] += 3
	}
	after := predictOf(t, runDir, &other, PredictOptions{Publish: publish})
	for _, lead := range []string{"24h", "48h"} {
		for i, m := range fc.Members {
			if key := fmt.Sprint(lead, " ", m); equalBits(after[key], before[key]) == (i == 1) {
				t.Errorf("a change of member %s at 0h, member %s at %s: the same bits is %v", fc.Members[1], m, lead, i == 1)
			}
		}
	}
}

// Every network over time trains and predicts from a configuration, gives finite numbers at every lead, and
// sees other leads; the U-Net of rows sees none. Members in another order change no bit of any, but those of the
// members that a network gives, which are in that order.
func TestNetworksOverTime(t *testing.T) {
	f := smallData(t)
	few := []string{"train.epochs=1", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.6", "baselines=[emos]"}
	for _, set := range [][]string{
		twoLeads(),
		twoLeads("model.leads=rows", "model.conditions=[lead, day_of_year, hour]"),
		twoLeads("model.kind=conv_lstm", "model.conditions=[lead]"),
		twoLeads("model.kind=conv_gru", "model.recurrent.bidirectional=false", "model.recurrent.truncate=1"),
		twoLeads("model.kind=unet_time"),
		twoLeads("model.kind=axial_transformer", "model.base=8", "model.axial.window=3", "model.conditions=[lead]"),
		twoLeads("model.kind=unet_2plus1d", "model.conditions=[lead, hour]", "model.head=spread", "train.loss.kind=l1", "train.loss.spread=0"),
		trajectories("model.kind=hierarchical", "train.loss.fairness=cross_pair"),
		trajectories("model.encoder.input=[field, noise]"),
	} {
		c := quick(t, f, slices.Concat(set, few)...)
		runDir := filepath.Join(t.TempDir(), "run")
		if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"}); err != nil {
			t.Fatalf("%s: %v", c.Model.Kind, err)
		}
		m, err := model.Load(filepath.Join(runDir, "model"), false)
		if err != nil {
			t.Fatalf("%s: %v", c.Model.Kind, err)
		}
		fc := startWithMembers(t, c, f.NetCDF[17])
		give := func(fc *ensemble.Forecast) (out []float32, members [][]float32) {
			x, err := m.Predict(context.Background(), model.Options(1, ""), fc, m.Task.Used)
			if err != nil {
				t.Fatalf("%s: %v", c.Model.Kind, err)
			}
			n := m.Grid.Size()
			for _, lead := range c.Data.TargetLeads {
				at := m.Task.At(model.Target{Variable: "t", Lead: lead}, ensemble.PressureLevel(850))
				for _, x := range [][]float32{x.Mean, x.Spread} {
					if x != nil {
						out = append(out, x[at*n:(at+1)*n]...)
					}
				}
				if x.Members != nil {
					members = append(members, x.MembersOf(at, len(m.Task.Score), n)...)
				}
			}
			return out, members
		}
		before, members := give(fc)
		exchanged, _ := give(with(fc, fc.Members, 0, 2, 1, 3)) // the first, which is the control, is known by its number
		if c.Model.Head == config.MembersHead {
			from := []int{2, 0, 3, 1}
			var others [][]float32
			exchanged, others = give(with(fc, fc.Members, from...))
			if len(m.Task.Used) != len(from) || len(others) != 2*len(from) {
				t.Fatalf("%s: %d fields of %d members", c.Model.Kind, len(others), len(m.Task.Used))
			}
			for i := range others {
				if was := i/len(from)*len(from) + from[i%len(from)]; !equalBits(others[i], members[was]) {
					t.Errorf("%s: field %d of another order is not what field %d was", c.Model.Kind, i, was)
				}
			}
		}
		if !equalBits(exchanged, before) {
			t.Errorf("%s: another order of the members gives other bits", c.Model.Kind)
		}
		for m := range fc.Members { // at a lead that is not predicted
			for p := range fc.Field(0, m, 0, 0) {
				fc.Field(0, m, 0, 0)[p] += float32(3 * m)
			}
		}
		after, _ := give(fc)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for half := range 2 {
			n := len(after) / 2
			if same := equalBits(before[half*n:(half+1)*n], after[half*n:(half+1)*n]); same != (c.Model.Leads == config.RowLeads) {
				t.Errorf("%s: a change at lead 0 leaves lead %s as it is: %v", c.Model.Kind, c.Data.TargetLeads[half], same)
			}
		}
	}
}

// ranksAreKept: at every lead calibrated members have the order of the raw ones, so that each is the
// trajectory that the raw member of its number is, and ranks correlate in time as theirs do.
func ranksAreKept(t *testing.T, fc *ensemble.Forecast, leads []ensemble.Lead, got map[string][]float32) {
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

// The spread of a lead after all that is read: training takes its answers there, a prediction needs
// no field of it.
func TestEarlyWarning(t *testing.T) {
	f := smallData(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := quick(t, f, "model.head=spread", "train.loss.kind=l1", "train.loss.spread=0", "data.leads=[0h, 24h]", "data.target_leads=[48h]", "train.networks=1", "train.epochs=2")
	trained, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if a := trained.Scores.Find("spread_rmse", SystemNetwork, "t", "850hPa", "48h"); a == nil || !(a.Value > 0) {
		t.Errorf("scores %+v", trained.Scores)
	}
	whole := startWithMembers(t, quick(t, f), f.NetCDF[17])
	if !slices.Equal(whole.Axes.Leads, []ensemble.Lead{0, ensemble.Lead(24 * time.Hour), ensemble.Lead(48 * time.Hour)}) {
		t.Fatal(whole.Axes.Leads)
	}
	early := *whole
	early.Axes.Leads = whole.Axes.Leads[:2]
	early.Values = whole.Values[:len(whole.Values)/3*2]
	got := predictOf(t, runDir, &early, PredictOptions{})[string(product.EnsembleSpread)]
	want := predictOf(t, runDir, whole, PredictOptions{})[string(product.EnsembleSpread)]
	if len(got) == 0 || !equalBits(got, want) {
		t.Errorf("%d values of the spread from fields up to 24 h, of all of them %d others", len(got), len(want))
	}
	out := t.TempDir()
	predicted, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := Verify(context.Background(), VerifyOptions{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{SystemNetwork, systemAffine, "raw3"} { // the affine one goes on from 24 h too
		a, b := trained.Scores.Find("spread_rmse", system, "t", "850hPa", "48h"), verified.Scores.Find("spread_rmse", system, "t", "850hPa", "48h")
		if a == nil || b == nil || !(math.Abs(float64(a.Value-b.Value)) < 1e-3*float64(a.Value)) {
			t.Errorf("%s: %+v from training, %+v from the products", system, a, b)
		}
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil || m.Task.Targets[0] != (model.Target{Variable: "t", Lead: ensemble.Lead(48 * time.Hour)}) || len(m.Task.Features.Axes.Leads) != 2 {
		t.Errorf("the model's task %+v, %v", m.Task.Targets, err)
	}
}

// Networks with leads in rows take the same steps on parts of the fields and of the batch as on whole ones.
func TestLeadsOnParts(t *testing.T) {
	lossesOnParts(t, trajectories("train.loss.fairness=cross_pair", "model.maps=true", "train.mesh=data:2 lat:2"), twoLeads("model.leads=rows", "model.conditions=[lead, hour]", "train.mesh=lon:3"))
}

// A training of trajectories that is stopped and resumed ends with the bits of one that was not.
func TestTrajectoriesResume(t *testing.T) {
	f := smallData(t)
	c := quick(t, f, trajectories("model.conditions=[lead]", "train.epochs=2")...)
	runDir := resumesToTheSameBits(t, c, 3, 4)
	// It is told its leads, so it takes fewer of them.
	fc := startWithMembers(t, c, f.NetCDF[17])
	early := *fc
	early.Axes.Leads = fc.Axes.Leads[:2]
	early.Values = fc.Values[:len(fc.Values)/3*2]
	whole := predictOf(t, runDir, fc, PredictOptions{})
	o := PredictOptions{Policy: config.Policy{Leads: early.Axes.Leads}}
	part := predictOf(t, runDir, &early, o) // of 24 h only
	for _, m := range fc.Members {
		a, b := whole["24h "+m.String()], part[m.String()]
		if len(b) == 0 || equalBits(a, b) {
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
	for want, leads := range map[string][]ensemble.Lead{"works along leads": {early.Axes.Leads[1]}, "does not read": {0, 1}} {
		o.Policy.Leads = leads
		if _, err := Predict(context.Background(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("leads %v: %v", leads, err)
		}
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Conditions = ""
	if err := m.ReadOnly(early.Axes.Leads); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "needs all of its 3 leads") {
		t.Errorf("places that are learned: %v", err)
	}
}

// From a sample store, which has the analyses of all target leads, a training takes the steps that it takes from
// files.
func TestLeadsFromAStore(t *testing.T) {
	f := smallData(t)
	var first []float64
	for _, stored := range []bool{false, true} {
		c := quick(t, f, twoLeads("train.epochs=1", "baselines=[emos]", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.6")...)
		if stored {
			c.Data.Store = config.Path(prepared(t, c, "f32"))
		}
		runDir := filepath.Join(t.TempDir(), "run")
		if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: runDir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		if got := losses(t, runDir); !stored {
			first = got
		} else if !slices.Equal(got, first) {
			t.Errorf("losses %v, from files %v", got, first)
		}
	}
}

// A training for several leads needs the analyses of all of them, and parts of the split that share none.
func TestLeadsRefused(t *testing.T) {
	f := smallData(t)
	c := quick(t, f, twoLeads()...)
	c.Data.Analyses = []config.Path{config.Path(f.Analyses[0])}
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "no analysis of t at 850hPa for") {
		t.Errorf("without analyses: %v", err)
	}
	day := ensemble.Lead(24 * time.Hour)
	start := ensemble.InitAt(time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC))
	next := ensemble.InitAt(start.Add(24 * time.Hour))
	split := ensemble.Split{Train: []ensemble.Init{start}, Test: []ensemble.Init{next}}
	if _, err := split.CheckLeaks([]ensemble.Lead{0, day, 2 * day}, []ensemble.Lead{day, 2 * day}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "share the target valid time") {
		t.Errorf("an analysis that both parts have: %v", err)
	}
	if _, err := split.CheckLeaks([]ensemble.Lead{0, day, 2 * day}, []ensemble.Lead{2 * day}); err != nil {
		t.Errorf("one lead: %v", err)
	}
}
