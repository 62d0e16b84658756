package experiment

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// datedSources is a short training on the small data whose configuration names test dates.
func datedSources(t *testing.T, set ...string) config.Sources {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, demotest.Config(t, demotest.Files(t), set...).YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	return config.Sources{Files: []string{path}, Set: []string{"train.networks=1", "train.epochs=1"}}
}

// Trials see no test dates. The best on the validation dates is first. A look at the test is logged once.
func TestSweep(t *testing.T) {
	ctx := context.Background()
	o := SweepOptions{Config: datedSources(t, datedSplit...), Dir: t.TempDir(), Keys: keysOf(t, "train.learning_rate=0.001,0.01"), Seeds: 2, Version: "test"}
	s, err := RunSweep(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 2 || !(s.Rows[0].Skill > s.Rows[1].Skill) || s.Rows[0].N != 3 || s.TestLooks != nil || s.Dates != "2001-09-05 to 2001-12-01" {
		t.Fatalf("%+v", s)
	}
	for _, r := range s.Rows {
		var skill, crps float64
		for _, seed := range []string{"seed-1", "seed-2"} {
			dir := filepath.Join(o.Dir, r.Trial, seed)
			m, err := rundir.ReadManifest(dir)
			if err != nil || m.Details["inits_test"] != 0. {
				t.Errorf("%s: %v, %v", dir, m, err)
			}
			v, err := compress.ValidationSkill(ctx, dir, 1)
			if err != nil {
				t.Fatal(err)
			}
			skill, crps = skill+float64(v.Skill)/2, crps+float64(v.CRPS[0].CRPS)/2
		}
		if math.Abs(float64(r.Skill)-skill) > 1e-9 || math.Abs(float64(r.CRPS)-crps) > 1e-9 || !(r.SD > 0) {
			t.Errorf("%+v, the trainings have %g and %g", r, skill, crps)
		}
	}
	o.Final = true
	for range 2 {
		if s, err = RunSweep(ctx, o); err != nil {
			t.Fatal(err)
		}
		if looks, err := readLooks(o.Dir); err != nil || len(looks) != 1 || len(s.TestLooks) != 1 || looks[0].Trial != s.Rows[0].Trial || looks[0].Test != "2001-12-03 to 2002-12-31" || math.Abs(float64(looks[0].Skill-s.Rows[0].Skill)) > 1e-9 {
			t.Errorf("%+v, %v", looks, err)
		}
	}
	if s.Final == nil || s.Final.Rows[0].N == 0 {
		t.Errorf("final: %+v", s.Final)
	}
	o.Seeds = 1 // another result
	if s, err = RunSweep(ctx, o); err != nil || len(s.TestLooks) != 2 {
		t.Errorf("%+v, %v", s.TestLooks, err)
	}
	var b strings.Builder
	if err := s.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "looked at 2 times") {
		t.Errorf("%v\n%s", err, b.String())
	}
	for _, path := range s.Outputs() {
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.Dir, looksFile), []byte("{}\n{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readLooks(o.Dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a damaged log: %v", err)
	}
}

// A sweep is refused before any training if it could see test dates or could not compare its trials.
func TestSweepRefuses(t *testing.T) {
	keys := keysOf(t, "model.dropout=0,0.3")
	noTest := append(append([]string{}, datedSplit[:4]...), "model.base=2")
	for _, c := range []struct {
		name string
		o    SweepOptions
		want string
	}{
		{"fractions", SweepOptions{Config: datedSources(t), Keys: keys}, "test dates are not known"},
		{"a head without CRPS", SweepOptions{Config: datedSources(t, append([]string{"model.head=spread", "train.loss.kind=mse", "train.loss.spread=0"}, datedSplit...)...), Keys: keys}, "needs a network with a distribution"},
		{"no such key", SweepOptions{Config: datedSources(t, datedSplit...), Keys: keysOf(t, "model.drop=0,0.3")}, "model.drop"},
		{"no keys", SweepOptions{Config: datedSources(t, datedSplit...)}, "needs keys"},
		{"no test", SweepOptions{Config: datedSources(t, noTest...), Keys: keysOf(t, "model.dropout=0"), Final: true}, "has no test dates"},
	} {
		c.o.Dir, c.o.Version = t.TempDir(), "test"
		if _, err := RunSweep(context.Background(), c.o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
