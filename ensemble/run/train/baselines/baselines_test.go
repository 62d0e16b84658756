package baselines

import (
	"bytes"
	"context"
	"fmt"
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

// noisy returns a task of two levels and synthetic samples of two years; variables are separated by commas.
func noisy(t *testing.T, variables string) (*task.Task, *samples.Data) {
	t.Helper()
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	targets := "{variable: " + strings.ReplaceAll(variables, ",", ", levels: [850hPa]}, {variable: ") + ", levels: [850hPa]}"
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, "data.leads=[48h]", "data.variables=["+variables+"]", "data.targets=["+targets+"]", "data.levels=[850hPa,500hPa]")
	var inits []ensemble.Init
	for i := range 60 {
		inits = append(inits, ensemble.InitAt(time.Date(2001, 1, 10+12*i, 0, 0, 0, 0, time.UTC)))
	}
	members := []ensemble.Member{0, 1, 2, 3}
	cases := runtest.NoisySamples(t, setup.AxesOf(c), inits, members, grid, c.Data.TargetLead)
	for _, s := range cases { // which have values of the first variable at the first level only
		for i := 1; i < 2*len(c.Data.Variables); i++ {
			other := func(to, from []float32) {
				for p, v := range from {
					to[p] = (1-0.1*float32(i))*v + float32(p%5)
				}
			}
			other(s.Analyses[0].Field(i/2, i%2), s.Analyses[0].Field(0, 0))
			for m := range members {
				other(s.Forecast.Field(0, m, i/2, i%2), s.Forecast.Field(0, m, 0, 0))
			}
		}
	}
	d := &samples.Data{Axes: setup.AxesOf(c), Used: members[:3], All: members, Grid: grid, Split: ensemble.Split{Train: inits[:50], Validation: inits[50:56], Test: inits[56:]}}
	d.AssignSamples(loader.NewInMemory(cases, samples.SampleBytes(cases), loader.Count{}), true)
	k := setup.TaskOf(c)
	k.UsedMembers, k.FullMembers = d.Used, len(d.All)
	return &k, d
}

// request returns all fast methods, and a reference with subsets of the dates.
func request(d *samples.Data) Options {
	every := make([]int, len(d.BeforeTest().Inits))
	for i := range every {
		every[i] = i
	}
	return Options{Methods: slices.DeleteFunc(slices.Clone(baseline.Methods), func(m *baseline.Method) bool { return m.ID == "emos_csg" }),
		Reference: baseline.MethodByID("emos_grid"), Subsets: [][]int{every[:50], every, every[20:]}}
}

// differences lists how a result differs from another one, in fits and warnings.
func differences(got, want *Result) (d []string) {
	if !reflect.DeepEqual(got.Warnings, want.Warnings) {
		d = append(d, fmt.Sprintf("warnings %q, want %q", got.Warnings, want.Warnings))
	}
	if len(got.Baselines) != len(want.Baselines) || len(got.References) != len(want.References) {
		return append(d, fmt.Sprintf("%d targets and %d references, want %d and %d", len(got.Baselines), len(got.References), len(want.Baselines), len(want.References)))
	}
	for i, w := range want.Baselines {
		if g := got.Baselines[i]; !reflect.DeepEqual(g, w) {
			d = append(d, fmt.Sprintf("target %d: affine spread %v, want %v, or other fits", i, g.Affine, w.Affine))
		}
	}
	for i, w := range want.References {
		if !reflect.DeepEqual(got.References[i], w) {
			d = append(d, fmt.Sprintf("reference %d differs", i))
		}
	}
	return d
}

// Baselines of training data in files have the bits of those of data in memory.
func TestFitInFiles(t *testing.T) {
	k, d := noisy(t, "t")
	o := request(d)
	fitIn := func(space *scratch.Space) *Result {
		t.Helper()
		r, err := fitAll(context.Background(), k, d, o, space)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range r.Warnings {
			t.Error(w)
		}
		return r
	}
	want := fitIn(nil)
	t.Setenv("TMPDIR", "")
	dir := t.TempDir()
	got := fitIn(scratch.New(dir, 0))
	if all := want.Baselines; len(all) != len(k.Targets)*len(k.Features.Axes.Levels) || len(all[0].Fits) < len(o.Methods) || all[0].Reduction == nil {
		t.Fatalf("%d targets with %d fits", len(all), len(all[0].Fits))
	}
	for _, text := range differences(got, want) {
		t.Error(text)
	}
	for i, r := range want.References {
		if len(r.Fits) != len(want.Baselines) || reflect.DeepEqual(r.Fits[0], r.Fits[1]) || i > 0 && reflect.DeepEqual(r.Fits, want.References[0].Fits) {
			t.Errorf("reference %d has %d fits, equal to others", i, len(r.Fits))
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A directory that takes no file is one error that names a remedy, not a warning for each baseline.
func TestFitWithoutDisk(t *testing.T) {
	k, d := noisy(t, "t")
	t.Setenv("TMPDIR", "")
	_, err := fitAll(context.Background(), k, d, Options{Methods: baseline.Methods}, scratch.New(filepath.Join(t.TempDir(), "none"), 0))
	if exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "the training data of baselines") || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Error(err)
	}
	// Room for the data, but not for the copy that SAMOS makes.
	n := 4 * int64(len(d.BeforeTest().Inits)*d.Grid.Size()*2*(statistics+len(k.UsedMembers)))
	o := Options{Methods: []*baseline.Method{baseline.MethodByID("samos"), baseline.MethodByID("mbm")}}
	r, err := fitAll(context.Background(), k, d, o, scratch.New(filepath.Join(t.TempDir(), "none"), n))
	if exit.CodeOf(err) != exit.CannotWrite || r != nil || !strings.Contains(err.Error(), "a copy of the training data") {
		t.Errorf("%v, fits %v", err, r)
	}
}

// Each pass of a fit is a task of its own, with the number of points and the time left.
func TestProgress(t *testing.T) {
	k, d := noisy(t, "t")
	var text bytes.Buffer
	r := progress.New(&text, progress.Plain, time.Nanosecond)
	_, err := fitAll(progress.With(context.Background(), r), k, d, Options{Methods: []*baseline.Method{baseline.MethodByID("emos_grid")}}, nil)
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

// EMOS of the full ensemble is EMOS of a network that reads all members; where the network reads them all, it is not fitted.
func TestFullEnsemble(t *testing.T) {
	k, d := noisy(t, "t")
	o := Options{Methods: []*baseline.Method{baseline.MethodByID("emos_grid"), baseline.MethodByID("emos_grid_full")}}
	fit := func() []task.Baseline {
		t.Helper()
		r, err := fitAll(context.Background(), k, d, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Baselines[0].Fits
	}
	few := fit()
	k.UsedMembers, d.Used = d.All, d.All
	all := fit()
	if len(few) != 2 || len(all) != 1 {
		t.Fatalf("%d fits with three of four members and %d with all, want 2 and 1", len(few), len(all))
	}
	if !reflect.DeepEqual(few[1].Fit, all[0].Fit) || reflect.DeepEqual(few[0].Fit, all[0].Fit) {
		t.Errorf("EMOS of the full ensemble is not that of all members, or EMOS of three members is")
	}
}
