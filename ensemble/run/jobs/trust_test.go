package jobs

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// fields reads the fields of files that a test picks.
func fields(t *testing.T, files []string, pick func(e ensemble.Entry) bool) (out [][]float32) {
	t.Helper()
	in, err := fio.Open(context.Background(), files, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, e := range in.Catalogue().Select(pick) {
		f, err := in.ReadOne(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Values)
	}
	return out
}

// gribSet changes keys of messages with the tool of ecCodes.
func gribSet(t *testing.T, from string, args ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	if text, err := exec.Command("grib_set", append(args, from, to)...).CombinedOutput(); err != nil {
		t.Fatalf("grib_set: %v\n%s", err, text)
	}
	return to
}

// Every condition under which a network is not trusted is injected. The product is then that of the fallback,
// states so and is degraded, or is refused. Without the condition, or with the policy to warn, it is that of
// the network.
func TestFallsBack(t *testing.T) {
	f := demotest.Files(t)
	finished := traintest.TrainedRun(t)
	input := f.GRIB2[15]
	of, _, err := model.LoadDescription(filepath.Join(finished, "model"))
	runtest.Must(t, err)
	damaged := func(change func(t *testing.T, dir string)) func(t *testing.T, o *predict.Options) {
		return func(t *testing.T, o *predict.Options) {
			o.RunDir = filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(o.RunDir, os.DirFS(finished)); err != nil {
				t.Fatal(err)
			}
			change(t, filepath.Join(o.RunDir, "model"))
		}
	}
	weights := filepath.Join("model", "weights-01.safetensors")
	alarms := func(about string, list ...promote.Alarm) func(t *testing.T, o *predict.Options) {
		return func(t *testing.T, o *predict.Options) {
			sum, err := trained.ModelChecksum(filepath.Join(finished, "model"))
			runtest.Must(t, err)
			if about == "" {
				about = sum
			}
			path := filepath.Join(t.TempDir(), "alarms.json")
			text, err := json.Marshal(promote.Alarms{Schema: promote.AlarmsSchema, Model: about, Alarms: list})
			runtest.Must(t, err)
			runtest.Must(t, os.WriteFile(path, text, 0o644))
			o.Policy.Alarms.File = config.Path(path)
		}
	}
	alarm := promote.Alarm{Kind: "bias", Text: "bias of t at 850hPa, 48h", Since: "2001-01-01T00:00:00Z"}
	offset := func(by string) func(t *testing.T, o *predict.Options) {
		return func(t *testing.T, o *predict.Options) {
			o.Input = []string{gribSet(t, input, "-w", "shortName=t,level=500", "-s", "offsetValuesBy="+by)}
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, o *predict.Options)
		then func(p *config.Policy, what string) // sets the policy of the condition
		why  string                              // in the warnings; "": nothing is doubted
	}{
		{"nothing", func(*testing.T, *predict.Options) {}, func(p *config.Policy, what string) {
			p.Drift.OnDrift, p.Alarms.OnAlarm, p.OnModelMismatch = what, what, what
		}, ""},
		{"a bias of 30 K at one level", offset("30"), func(p *config.Policy, what string) { p.Drift.OnDrift = what }, "input drift"},
		{"an alarm", alarms("", alarm), func(p *config.Policy, what string) { p.Alarms.OnAlarm = what }, "alarms since 2001-01-01T00:00:00Z: bias of t"},
		{"an alarm of another model", alarms("sha256:other", alarm), func(p *config.Policy, what string) { p.Alarms.OnAlarm = what }, ""},
		{"no alarm", alarms(""), func(p *config.Policy, what string) { p.Alarms.OnAlarm = what }, ""},
		{"another forecast model", damaged(func(t *testing.T, dir string) {
			m, err := model.Load(dir, false)
			runtest.Must(t, err)
			defer m.Close()
			m.Origins = []ensemble.Origin{{Centre: "another", Points: "1x1"}}
			runtest.Must(t, m.Save(dir))
			traintest.UpdateModelChecksum(t, filepath.Dir(dir))
		}), func(p *config.Policy, what string) { p.OnModelMismatch = what }, "another forecast model"},
		{"weights that are cut", damaged(func(t *testing.T, dir string) {
			runtest.Must(t, os.Truncate(filepath.Join(filepath.Dir(dir), weights), 100))
		}),
			func(p *config.Policy, what string) { p.OnFailure = what }, "the network failed: "},
		{"weights with one bit changed", damaged(func(t *testing.T, dir string) {
			path := filepath.Join(filepath.Dir(dir), weights)
			text, err := os.ReadFile(path)
			runtest.Must(t, err)
			text[len(text)-3] ^= 1
			runtest.Must(t, os.WriteFile(path, text, 0o644))
		}), func(p *config.Policy, what string) { p.OnFailure = what }, "the network failed: the model is not the one that was trained"},
		{"weights that are no numbers", damaged(func(t *testing.T, dir string) {
			path := filepath.Join(filepath.Dir(dir), weights)
			tensors, meta, err := ckpt.ReadFile(path)
			runtest.Must(t, err)
			tensors[0].Data.([]float32)[0] = float32(math.NaN())
			runtest.Must(t, ckpt.WriteFile(path, tensors, meta))
			traintest.UpdateModelChecksum(t, filepath.Dir(dir))
		}), func(p *config.Policy, what string) { p.OnFailure = what }, "the network failed: "},
		{"a network that amplifies its input", damaged(func(t *testing.T, dir string) {
			path := filepath.Join(filepath.Dir(dir), weights)
			tensors, meta, err := ckpt.ReadFile(path)
			runtest.Must(t, err)
			for _, x := range tensors {
				for i := range x.Data.([]float32) {
					x.Data.([]float32)[i] *= 2
				}
			}
			runtest.Must(t, ckpt.WriteFile(path, tensors, meta))
			traintest.UpdateModelChecksum(t, filepath.Dir(dir))
		}), func(p *config.Policy, what string) { p.Bound.OnExcess = what }, "too far from its ensemble: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			issued := func(then string, ladder ...string) (*predict.Result, *product.Manifest, error) {
				o := predictOptions(t, t.TempDir())
				o.Input, o.Formats = []string{input}, []product.Format{product.NetCDF}
				c.do(t, &o)
				c.then(&o.Policy, then)
				o.Policy.Fallback = ladder
				r, err := predict.Run(context.Background(), o)
				if err != nil {
					return nil, nil, err
				}
				m, err := product.ReadManifest(filepath.Dir(r.Outputs[0]))
				runtest.Must(t, err)
				if c.name != "an alarm" {
					return r, m, nil
				}
				if again, err := predict.Run(context.Background(), o); err != nil || again.Existing != 1 {
					t.Errorf("again: %v", err)
				}
				return r, m, nil
			}
			r, m, err := issued(predict.ActionFallBack, "raw")
			runtest.Must(t, err)
			if fell := c.why != ""; (m.Fallback == "raw") != fell || (r.Degraded == 1) != fell || strings.Contains(strings.Join(m.Warnings, "\n"), "replaces the network") != fell ||
				!strings.Contains(strings.Join(m.Warnings, "\n"), c.why) || len(m.Departures) < 2 || m.Departures[0].Ratio > model.DefaultReach {
				t.Fatalf("fallen back on %q, degraded %d: %q", m.Fallback, r.Degraded, m.Warnings)
			}
			if c.why == "" {
				return
			}
			// The raw distribution, by itself.
			in := input
			if c.name == "a bias of 30 K at one level" { // the target is of another level
				in = gribSet(t, input, "-w", "shortName=t,level=500", "-s", "offsetValuesBy=30")
			}
			members := fields(t, []string{in}, func(e ensemble.Entry) bool {
				return e.Variable == "t" && e.Level == ensemble.PressureLevel(850) && e.Lead.String() == "48h" && slices.Contains(of.Task.UsedMembers, e.Member)
			})
			if len(members) != 3 {
				t.Fatalf("%d members", len(members))
			}
			got := func(outputs []string, kind ensemble.Product) []float32 {
				return fields(t, outputs, func(e ensemble.Entry) bool { return e.Product == kind && verify.KindOf(e) != product.EnsembleSpread })[0]
			}
			mean, spread := got(r.Outputs, ensemble.EnsembleMean), got(r.Outputs, ensemble.Spread)
			for p := range mean {
				var x []float64
				for _, f := range members {
					x = append(x, float64(f[p]))
				}
				a, s := ensemble.MeanSpread(x, 1)
				if s *= math.Sqrt(4. / 3); math.Abs(float64(mean[p])-a) > 1e-4 || math.Abs(float64(spread[p])-s) > 1e-4*s {
					t.Fatalf("point %d: %g ± %g, want %g ± %g", p, mean[p], spread[p], a, s)
				}
			}
			if c.name != "an alarm" {
				if _, _, err := issued("refuse", "raw"); err == nil {
					t.Error("it is not refused")
				}
				return
			}
			// A baseline comes before, where the model has it.
			_, m, err = issued(predict.ActionFallBack, "climatology", "emos_grid", "raw")
			runtest.Must(t, err)
			if m.Fallback != "climatology" {
				t.Errorf("fallen back on %q", m.Fallback)
			}
			if r, m, err = issued(predict.ActionFallBack, "samos", "emos_grid", "raw"); err != nil || m.Fallback != "emos_grid" {
				t.Fatalf("fallen back on %q: %v", m.Fallback, err)
			}
			b := verify.BaselinesOf(of, verify.ProductKey{Variable: "t", Level: ensemble.PressureLevel(850), Lead: of.Task.Targets[0].Lead})
			for _, fit := range b.Fits {
				if fit.Method.ID == "emos_grid" {
					start, err := time.Parse(time.RFC3339, m.Init)
					runtest.Must(t, err)
					raw := baseline.Raw{Valid: ensemble.InitAt(start).Valid(of.Task.Targets[0].Lead).Time}
					raw.Mean, raw.Std = scoring.MeanStd(members, 1)
					want := fit.Fit.Forecast(raw)
					mean, spread := got(r.Outputs, ensemble.EnsembleMean), got(r.Outputs, ensemble.Spread)
					for p := range mean {
						if math.Abs(float64(mean[p]-want[0][p])) > 1e-3 || math.Abs(float64(spread[p]-want[1][p])) > 1e-4*float64(want[1][p]) {
							t.Fatalf("emos_grid, point %d: %g ± %g, want %g ± %g", p, mean[p], spread[p], want[0][p], want[1][p])
						}
					}
				}
			}
			if _, _, err := issued(predict.ActionRefuse, "raw"); exit.CodeOf(err) != exit.BadData {
				t.Errorf("refused: %v", err)
			}
			if _, m, err := issued("warn", "raw"); err != nil || m.Fallback != "" || !strings.Contains(strings.Join(m.Warnings, "\n"), c.why) {
				t.Errorf("warned: %v, %+v", err, m)
			}
			if _, _, err := issued(predict.ActionFallBack, "samos"); exit.CodeOf(err) != exit.Usage {
				t.Errorf("nothing to fall back on: %v", err)
			}
		})
	}
}

// withMembers writes a file with some members of another one.
func withMembers(t *testing.T, from, members string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "few.grib2")
	if text, err := exec.Command("grib_copy", "-w", "number="+members, from, to).CombinedOutput(); err != nil {
		t.Fatalf("grib_copy: %v\n%s", err, text)
	}
	return to
}

// With fewer members than the network was trained for, but at least two, the fallback forecasts if the policy
// allows it.
func TestTooFewMembers(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		members, onShort string
		code             exit.Code
	}{{"0/2", predict.ActionFallBack, exit.OK}, {"0/2", "degrade", exit.NotYet}, {"0", predict.ActionFallBack, exit.NotYet}, {"0/1/2", predict.ActionFallBack, exit.OK}} {
		o := predictOptions(t, t.TempDir())
		o.Input, o.Formats = []string{withMembers(t, f.GRIB2[16], c.members)}, []product.Format{product.NetCDF}
		o.Policy.Members.OnMissing, o.Policy.Fallback, o.Policy.Drift.Limit = c.onShort, []string{"raw"}, 1e9
		r, err := predict.Run(context.Background(), o)
		if exit.CodeOf(err) != c.code {
			t.Fatalf("members %s, %s: %v", c.members, c.onShort, err)
		}
		if err != nil {
			continue
		}
		m, err := product.ReadManifest(filepath.Dir(r.Outputs[0]))
		runtest.Must(t, err)
		if c.members == "0/1/2" {
			if m.Fallback != "" {
				t.Errorf("enough members: %+v", m)
			}
			continue
		}
		if m.Fallback != "raw" || m.Status != manifest.Degraded || len(m.MembersUsed) != 2 {
			t.Errorf("%+v", m)
		}
		members := fields(t, o.Input, func(e ensemble.Entry) bool {
			return e.Variable == "t" && e.Level == ensemble.PressureLevel(850) && e.Lead.String() == "48h"
		})
		mean, spread := fields(t, r.Outputs, func(e ensemble.Entry) bool { return e.Product == ensemble.EnsembleMean })[0],
			fields(t, r.Outputs, func(e ensemble.Entry) bool { return verify.KindOf(e) == product.Spread })[0]
		for p := range mean {
			a, s := ensemble.MeanSpread([]float64{float64(members[0][p]), float64(members[1][p])}, 1)
			if s *= math.Sqrt(1.5); math.Abs(float64(mean[p])-a) > 1e-4 || math.Abs(float64(spread[p])-s) > 1e-4*s {
				t.Fatalf("point %d: %g ± %g, want %g ± %g", p, mean[p], spread[p], a, s)
			}
		}
	}
}
