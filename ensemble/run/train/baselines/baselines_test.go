package baselines

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// noisy returns a task of two levels and synthetic samples of two years.
func noisy(t *testing.T) (*task.Task, *samples.Data) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "data.leads=[48h]", "data.variables=[t]", "data.levels=[850hPa,500hPa]")
	var inits []ensemble.Init
	for i := range 60 {
		inits = append(inits, ensemble.InitAt(time.Date(2001, 1, 10+12*i, 0, 0, 0, 0, time.UTC)))
	}
	members := []ensemble.Member{0, 1, 2, 3}
	cases := runtest.NoisySamples(t, setup.AxesOf(c), inits, members, grid, c.Data.TargetLead)
	for _, s := range cases { // which have values at the first level only
		other := func(to, from []float32) {
			for p, v := range from {
				to[p] = 0.9*v + float32(p%5)
			}
		}
		other(s.Analyses[0].Field(0, 1), s.Analyses[0].Field(0, 0))
		for m := range members {
			other(s.Forecast.Field(0, m, 0, 1), s.Forecast.Field(0, m, 0, 0))
		}
	}
	d := &samples.Data{Axes: setup.AxesOf(c), Used: members[:3], All: members, Grid: grid, Split: ensemble.Split{Train: inits[:50], Validation: inits[50:56], Test: inits[56:]}}
	d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
	k := setup.TaskOf(c)
	k.UsedMembers, k.FullMembers = d.Used, len(d.All)
	return &k, d
}

// Baselines of training data in files have the bits of those of data in memory.
func TestFitInFiles(t *testing.T) {
	k, d := noisy(t)
	methods := slices.DeleteFunc(slices.Clone(baseline.Methods), func(m *baseline.Method) bool { return m.ID == "emos_csg" }) // which is slow
	var sets []*baseline.Set
	fitIn := func(space *scratch.Space) []task.Baselines {
		t.Helper()
		all, warnings, err := fit(context.Background(), k, methods, d, space, func(_ string, s *baseline.Set) {
			some, err := s.Subset([]int{3, 1, 55})
			if err != nil {
				t.Fatal(err)
			}
			own := &baseline.Set{Valid: some.Valid}
			own.Mean, own.Std, own.Obs = append(own.Mean, some.Mean...), append(own.Std, some.Std...), append(own.Obs, some.Obs...)
			sets = append(sets, own)
			if err := some.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range warnings {
			t.Error(w)
		}
		return all
	}
	want := fitIn(nil)
	t.Setenv("TMPDIR", "")
	dir := t.TempDir()
	got := fitIn(scratch.New(dir, 0))
	if len(want) != len(k.Targets)*len(k.Features.Axes.Levels) || len(want[0].Fits) < len(methods) || want[0].Reduction == nil {
		t.Fatalf("%d targets with %d fits", len(want), len(want[0].Fits))
	}
	for i := range want {
		if got[i].Affine != want[i].Affine || !reflect.DeepEqual(got[i].Reduction, want[i].Reduction) {
			t.Errorf("target %d: affine spread %v, want %v, or another split", i, got[i].Affine, want[i].Affine)
		}
		for f, w := range want[i].Fits {
			if !reflect.DeepEqual(got[i].Fits[f].Fit, w.Fit) {
				t.Errorf("target %d: %s differs", i, w.Method.ID)
			}
		}
	}
	if half := len(sets) / 2; half != len(want) || !reflect.DeepEqual(sets[:half], sets[half:]) || reflect.DeepEqual(sets[0], sets[1]) {
		t.Error("onTarget received other data")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A directory that takes no file is one error that names a remedy, not a warning for each baseline.
func TestFitWithoutDisk(t *testing.T) {
	k, d := noisy(t)
	t.Setenv("TMPDIR", "")
	_, warnings, err := fit(context.Background(), k, baseline.Methods, d, scratch.New(filepath.Join(t.TempDir(), "none"), 0), func(string, *baseline.Set) {})
	if exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "the training data of baselines") || !strings.Contains(err.Error(), "set TMPDIR") || len(warnings) > 0 {
		t.Errorf("%v, warnings %v", err, warnings)
	}
	// Room for the data, but not for the copy that SAMOS makes.
	n := 4 * int64(len(d.BeforeTest().Inits)*d.Grid.Size()*2*(statistics+len(k.UsedMembers)))
	all, _, err := fit(context.Background(), k, []*baseline.Method{baseline.MethodByID("samos"), baseline.MethodByID("mbm")}, d,
		scratch.New(filepath.Join(t.TempDir(), "none"), n), func(string, *baseline.Set) {})
	if exit.CodeOf(err) != exit.CannotWrite || all != nil || !strings.Contains(err.Error(), "a copy of the training data") {
		t.Errorf("%v, fits %v", err, all)
	}
}

// Each pass of a fit is a task of its own, with the number of points and the time left.
func TestProgress(t *testing.T) {
	k, d := noisy(t)
	var text bytes.Buffer
	r := progress.New(&text, progress.Plain, time.Nanosecond)
	_, _, err := fit(progress.With(context.Background(), r), k, []*baseline.Method{baseline.MethodByID("emos_grid")}, d, nil, func(string, *baseline.Set) {})
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"emos_grid of t at 850hPa: cross-validation ", "emos_grid of t at 850hPa: scores of all points 96/96 100 %", "emos_grid of t at 500hPa: points 96/96 100 %", "fit 6/6 100 %"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("progress lacks %q in\n%s", want, text.String())
		}
	}
}
