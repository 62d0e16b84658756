package train

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Every network with a lead axis trains and predicts from a configuration, gives finite values at every lead,
// and reads other leads, except the U-Net with leads as batch rows. Members in another order change no bit,
// except that output members follow the order.
func TestNetworksOverTime(t *testing.T) {
	networksOverTime(t, func(i int) bool { return i%2 == 0 })
}

// networksOverTime trains the networks whose index take selects.
func networksOverTime(t *testing.T, take func(i int) bool) {
	f := demotest.Files(t)
	few := []string{"train.epochs=1", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.6", "baselines=[emos]"}
	for i, set := range [][]string{
		runtest.TwoLeads(),
		runtest.TwoLeads("model.lead_axis=batch", "model.conditions=[lead, day_of_year, hour]"),
		runtest.TwoLeads("model.kind=conv_lstm", "model.conditions=[lead]"),
		runtest.TwoLeads("model.kind=conv_gru", "model.recurrent.bidirectional=false", "model.recurrent.truncate=1"),
		runtest.TwoLeads("model.kind=unet_time"),
		runtest.TwoLeads("model.kind=axial_transformer", "model.base=8", "model.axial.window=3", "model.conditions=[lead]"),
		runtest.TwoLeads("model.kind=unet_2plus1d", "model.conditions=[lead, hour]", "model.head=spread", "train.loss.kind=l1", "train.loss.spread=0"),
		runtest.Trajectories("model.kind=hierarchical", "train.loss.fairness=cross_pair"),
		runtest.Trajectories("model.encoder.input=[field, noise]"),
	} {
		if !take(i) {
			continue
		}
		c := demotest.Config(t, f, slices.Concat(set, few)...)
		runDir := filepath.Join(t.TempDir(), "run")
		if _, err := Run(context.Background(), Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
			t.Fatalf("%s: %v", c.Model.Kind, err)
		}
		m, err := model.Load(filepath.Join(runDir, "model"), false)
		if err != nil {
			t.Fatalf("%s: %v", c.Model.Kind, err)
		}
		fc := samplestest.ReadInit(t, c, f.NetCDF[17])
		give := func(fc *ensemble.Forecast) (out []float32, members [][]float32) {
			x, err := m.Predict(context.Background(), network.Options(1, ""), fc, m.Task.UsedMembers)
			if err != nil {
				t.Fatalf("%s: %v", c.Model.Kind, err)
			}
			n := m.Grid.Size()
			for _, lead := range c.Data.TargetLeads {
				at := m.Task.TargetIndex(task.Target{Variable: "t", Lead: lead}, ensemble.PressureLevel(850))
				for _, x := range [][]float32{x.Mean, x.Spread} {
					if x != nil {
						out = append(out, x[at*n:(at+1)*n]...)
					}
				}
				if x.Members != nil {
					members = append(members, x.TargetMembers(at, len(m.Task.TargetWeights), n)...)
				}
			}
			return out, members
		}
		before, members := give(fc)
		exchanged, _ := give(runtest.WithMembers(fc, fc.Members, 0, 2, 1, 3)) // the first, which is the control, is known by its number
		if c.Model.Head == config.MembersHead {
			from := []int{2, 0, 3, 1}
			var others [][]float32
			exchanged, others = give(runtest.WithMembers(fc, fc.Members, from...))
			if len(m.Task.UsedMembers) != len(from) || len(others) != 2*len(from) {
				t.Fatalf("%s: %d fields of %d members", c.Model.Kind, len(others), len(m.Task.UsedMembers))
			}
			for i := range others {
				if was := i/len(from)*len(from) + from[i%len(from)]; !runtest.EqualBits(others[i], members[was]) {
					t.Errorf("%s: field %d of another order is not what field %d was", c.Model.Kind, i, was)
				}
			}
		}
		if !runtest.EqualBits(exchanged, before) {
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
			if same := runtest.EqualBits(before[half*n:(half+1)*n], after[half*n:(half+1)*n]); same != (c.Model.LeadAxis == config.BatchLeads) {
				t.Errorf("%s: a change at lead 0 leaves lead %s as it is: %v", c.Model.Kind, c.Data.TargetLeads[half], same)
			}
		}
	}
}

// A training takes the same steps from a sample store, which has analyses of all target leads, as from files.
func TestLeadsFromAStore(t *testing.T) {
	f := demotest.Files(t)
	var first []float64
	for _, stored := range []bool{false, true} {
		c := demotest.Config(t, f, runtest.TwoLeads("train.epochs=1", "baselines=[emos]", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.6")...)
		if stored {
			c.Data.Store = config.Path(samplestest.PrepareStore(t, c, "f32"))
		}
		runDir := filepath.Join(t.TempDir(), "run")
		if _, err := Run(context.Background(), Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		if got := runtest.Losses(t, runDir); !stored {
			first = got
		} else if !slices.Equal(got, first) {
			t.Errorf("losses %v, from files %v", got, first)
		}
	}
}

// A training for several leads needs analyses of all of them, and parts of the split that share none.
func TestLeadsRefused(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.TwoLeads()...)
	c.Data.Analyses = []config.Path{config.Path(f.Analyses[0])}
	if _, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "no analysis of t at 850hPa for") {
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
