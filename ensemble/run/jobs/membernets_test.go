package jobs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// predictOf returns the fields of a forecast's products by statistic and member, and by lead if there are
// several.
func predictOf(t *testing.T, runDir string, fc *ensemble.Forecast, o predict.Options) map[string][]float32 {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	path := filepath.Join(t.TempDir(), "fc.nc")
	if err := product.WriteEnsembleNetCDF(context.Background(), pool, path, fc, demo.Metadata(), product.Options{}); err != nil {
		t.Fatal(err)
	}
	o.RunDir, o.Input, o.Out, o.Formats, o.Version = runDir, []string{path}, t.TempDir(), []product.Format{product.NetCDF}, "test"
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	in, err := fio.Open(context.Background(), r.Outputs, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[string][]float32{}
	entries := in.Catalogue().Entries
	if err := in.Read(context.Background(), entries, func(i int, f *ensemble.Field) error {
		name := string(verify.KindOf(entries[i]))
		switch e := entries[i]; e.Product {
		case ensemble.MemberField:
			name = e.Member.String()
		case ensemble.Quantile:
			name = fmt.Sprint(e.QuantileProbability)
		case ensemble.Probability:
			name = e.Event.String()
		}
		if len((&ensemble.Catalogue{Entries: entries}).Leads()) > 1 {
			name = entries[i].Lead.String() + " " + name
		}
		out[name] = slices.Clone(f.Values)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// The prediction of a network that reads members is the same, bit by bit, for files with members in another
// order and for exchanged member numbers, with all members and with fewer; and each member matters. Its
// training, which draws numbers of members, resumes to the same bits.
func TestOrderOfMembers(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.MemberInput("train.epochs=1", "data.members.minimum=2")...)
	runDir := traintest.CheckResume(t, c, 2)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	want := predictOf(t, runDir, fc, predict.Options{})
	two := predict.Options{}
	two.Policy.Members.OnMissing, two.Policy.Members.Minimum = "degrade", 2
	all := fc.Members
	wantTwo := predictOf(t, runDir, runtest.WithMembers(fc, all[:2], 0, 1), two)
	for _, r := range []struct {
		name string
		fc   *ensemble.Forecast
		o    predict.Options
		want map[string][]float32
		same bool
	}{
		{"another order in the file", runtest.WithMembers(fc, []ensemble.Member{all[2], all[0], all[3], all[1]}, 2, 0, 3, 1), predict.Options{}, want, true},
		{"exchanged numbers", runtest.WithMembers(fc, all, 1, 2, 0, 3), predict.Options{}, want, true},
		{"two members with exchanged numbers", runtest.WithMembers(fc, all[:2], 1, 0), two, wantTwo, true},
		{"another member", runtest.WithMembers(fc, all, 0, 1, 3, 2), predict.Options{}, want, false},
		{"two of three members", runtest.WithMembers(fc, all[:2], 0, 1), two, want, false},
	} {
		got := predictOf(t, runDir, r.fc, r.o)
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread} {
			if have, ok := got[string(kind)]; !ok || runtest.EqualBits(have, r.want[string(kind)]) != r.same {
				t.Errorf("%s: %s is the same: %v, want %v", r.name, kind, !r.same, r.same)
			}
		}
	}
}

// Without control no member is special, number 0 neither: training on statistics, and predictions also of encoded members, have the
// same bits whatever the numbers of the members are. (Gradients of an encoder are sums over members in their order, whose rounding
// differs.) Training warns where the files have a control.
func TestMembersWithoutControl(t *testing.T) {
	f, pool := demotest.Files(t), encoderPool(t)
	for name, set := range map[string][]string{
		"statistics": {"train.networks=1", "train.epochs=2"},
		"encoder":    {"model.members=encoder", "model.encoder.channels=4", "train.networks=1", "train.epochs=2"},
	} {
		set = append(set, "data.members.control=none", "data.members.use=4", "data.members.sampling=fixed", "baselines=[emos]")
		run := func(what string, more ...string) (string, *train.Result) {
			t.Helper()
			dir := filepath.Join(t.TempDir(), what)
			r, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, append(slices.Clone(set), more...)...), RunDir: dir, Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			return dir, r
		}
		runDir, r := run("grib")
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "the control is used as one more member") }) {
			t.Errorf("%s: warnings %q", name, r.Warnings)
		}
		m, err := model.Load(filepath.Join(runDir, "model"), false)
		runtest.Must(t, err)
		if m.Control != ensemble.NoControl || !slices.Equal(m.Task.Features.Aggregates, []ensemble.Aggregate{ensemble.UsedMean, ensemble.UsedSpread}) {
			t.Errorf("%s: control %q, features %v", name, m.Control, m.Task.Features.Aggregates)
		}
		runtest.Must(t, m.Close())

		c := demotest.Config(t, f, set...)
		first, second := t.TempDir(), t.TempDir()
		for i, path := range f.NetCDF[:10] {
			fc := samplestest.ReadInit(t, c, path)
			writeForecast(t, pool, filepath.Join(first, fmt.Sprintf("%02d.nc", i)), fc)
			writeForecast(t, pool, filepath.Join(second, fmt.Sprintf("%02d.nc", i)), runtest.WithMembers(fc, fc.Members, 2, 0, 3, 1))
		}
		a, ra := run("a", "data.forecasts=["+first+"]")
		b, rb := run("b", "data.forecasts=["+second+"]")
		files := []string{"arrays.safetensors", "weights-00.safetensors"}
		if name == "encoder" {
			files = files[:1]
		}
		for _, file := range files {
			x, err := os.ReadFile(filepath.Join(a, "model", file))
			y, other := os.ReadFile(filepath.Join(b, "model", file))
			if err != nil || other != nil || !bytes.Equal(x, y) {
				t.Errorf("%s: %s has other bits with other numbers of the members: %v, %v", name, file, err, other)
			}
		}
		for _, r := range []*train.Result{ra, rb} {
			if slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "one more member") }) {
				t.Errorf("%s: NetCDF has no types of members, but %q", name, r.Warnings)
			}
		}

		fc := samplestest.ReadInit(t, c, f.NetCDF[17])
		want := predictOf(t, runDir, fc, predict.Options{})
		got := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members, 3, 2, 0, 1), predict.Options{})
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread} {
			if have, ok := got[string(kind)]; !ok || !runtest.EqualBits(have, want[string(kind)]) {
				t.Errorf("%s: %s has other bits with other numbers of the members", name, kind)
			}
		}
	}
}

// encoderPool returns a pool of encoders that is closed at the end of the test.
func encoderPool(t *testing.T) *decode.Pool {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{})
	runtest.Must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// writeForecast writes a forecast with its members.
func writeForecast(t *testing.T, pool *decode.Pool, path string, fc *ensemble.Forecast) {
	t.Helper()
	runtest.Must(t, product.WriteEnsembleNetCDF(context.Background(), pool, path, fc, demo.Metadata(), product.Options{}))
}

// A model that was trained without control reads number 0 as any member. If it is missing, no control is: the input is
// incomplete (66), unless the policy leaves number 0 out. Products state the policy.
func TestPredictionWithoutControl(t *testing.T) {
	f, pool := demotest.Files(t), encoderPool(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "data.members.control=none", "data.members.minimum=2", "train.networks=1", "train.epochs=1")
	_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	runtest.Must(t, err)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	three := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members[:3], 1, 2, 3), predict.Options{})
	fromOne := filepath.Join(t.TempDir(), "fc.nc")
	writeForecast(t, pool, fromOne, runtest.WithMembers(fc, []ensemble.Member{1, 2, 3}, 3, 1, 2))
	whole := filepath.Join(t.TempDir(), "fc.nc")
	writeForecast(t, pool, whole, fc)
	run := func(path, control, onMissing string) (*predict.Result, error) {
		o := predict.Options{RunDir: runDir, Input: []string{path}, Out: t.TempDir(), Formats: []product.Format{product.NetCDF}, Version: "test"}
		o.Policy.Members.Control, o.Policy.Members.OnMissing = control, onMissing
		return predict.Run(context.Background(), o)
	}
	for _, control := range []string{"", ensemble.NoControl, ensemble.IncludeControl} {
		_, err := run(fromOne, control, "")
		if exit.CodeOf(err) != exit.NotYet || !strings.Contains(fmt.Sprint(err), "member 0 is in none") || !strings.Contains(fmt.Sprint(err), "set members.control: exclude") {
			t.Errorf("control %q without number 0: %v", control, err)
		}
		r, err := run(whole, control, "")
		runtest.Must(t, err)
		checkControl(t, r, cmp.Or(control, ensemble.NoControl), 0, 1, 2)
		verified, err := verify.Run(context.Background(), verify.Options{Forecast: r.Outputs, Analysis: f.Analyses, Members: []string{whole}})
		runtest.Must(t, err)
		if verified.Scores.Find("crps_fair", scoring.SystemRaw(3), "t", "850hPa", "48h") == nil {
			t.Errorf("control %q: no score of the members that were read", control)
		}
	}
	r, err := run(fromOne, "", "degrade") // the control of another model would be required
	runtest.Must(t, err)
	checkControl(t, r, ensemble.NoControl, 1, 2, 3)
	r, err = run(fromOne, ensemble.ExcludeControl, "")
	runtest.Must(t, err)
	checkControl(t, r, ensemble.ExcludeControl, 1, 2, 3)
	o := predict.Options{}
	o.Policy.Members.Control = ensemble.ExcludeControl
	got := predictOf(t, runDir, runtest.WithMembers(fc, []ensemble.Member{1, 2, 3}, 3, 1, 2), o)
	for _, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread} {
		if !runtest.EqualBits(got[string(kind)], three[string(kind)]) {
			t.Errorf("%s: numbers from 1 change bits", kind)
		}
	}
}

// checkControl checks the policy and the used members of products.
func checkControl(t *testing.T, r *predict.Result, control string, used ...ensemble.Member) {
	t.Helper()
	p, err := product.ReadManifest(filepath.Dir(r.Outputs[0]))
	if err != nil || p.ControlPolicy != control || !slices.Equal(p.MembersUsed, used) {
		t.Errorf("%v: policy %q with members %v, want %q with %v", err, p.ControlPolicy, p.MembersUsed, control, used)
	}
}
