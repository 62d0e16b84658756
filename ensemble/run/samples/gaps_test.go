package samples_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Initialisations whose analyses have no value leave the split, with a warning, on all ranks; a part of the split
// without any other is refused.
func TestGapsOfAnalyses(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	forecasts, files, err := samples.ArchiveFiles(c)
	runtest.Must(t, err)
	whole, err := samples.ReadData(context.Background(), c, forecasts, files, nil)
	runtest.Must(t, err)
	var all []*ensemble.Analysis
	for _, p := range []samples.Examples{whole.Train, whole.Validation, whole.Test} {
		runtest.Must(t, p.Each(context.Background(), nil, func(_ int, _ *ensemble.Forecast, a []*ensemble.Analysis) error {
			for _, a := range a {
				if !slices.ContainsFunc(all, func(o *ensemble.Analysis) bool { return o.Valid == a.Valid }) {
					all = append(all, a)
				}
			}
			return nil
		}))
	}
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{})
	runtest.Must(t, err)
	defer pool.Close()
	write := func(name string, empty func(init ensemble.Init) bool) []string {
		var out []*ensemble.Analysis
		for _, a := range all {
			b := *a
			b.Values = slices.Clone(a.Values)
			if empty(ensemble.InitAt(a.Valid.Add(-time.Duration(c.Data.TargetLeads[0])))) {
				for i := range b.Values {
					b.Values[i] = float32(math.NaN())
				}
			}
			out = append(out, &b)
		}
		path := filepath.Join(t.TempDir(), name)
		runtest.Must(t, product.WriteAnalysesNetCDF(context.Background(), pool, path, out, product.Metadata{Title: "synthetic"}, product.Options{}))
		return []string{path}
	}
	gaps := []ensemble.Init{whole.Train.Inits[1], whole.Test.Inits[0]}
	path := write("gaps.nc", func(i ensemble.Init) bool { return slices.Contains(gaps, i) })
	for _, ranks := range []int{1, 2} {
		cfg := demotest.Config(t, f, fmt.Sprintf("train.mesh=lat:%d", ranks))
		err := comm.Run(ranks, comm.Parallel, func(g *comm.Comm) error {
			var w *team.Team
			if ranks > 1 {
				w = team.New(g)
			}
			d, err := samples.ReadData(context.Background(), cfg, forecasts, path, w)
			if err != nil {
				return err
			}
			if len(d.Train.Inits) != len(whole.Train.Inits)-1 || len(d.Test.Inits) != len(whole.Test.Inits)-1 || slices.Contains(d.Train.Inits, gaps[0]) {
				return fmt.Errorf("%d and %d initialisations, %d and %d without gaps", len(d.Train.Inits), len(d.Test.Inits), len(whole.Train.Inits), len(whole.Test.Inits))
			}
			if !slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, "without any value: their dates are left out") }) {
				return fmt.Errorf("warnings %q", d.Warnings)
			}
			return d.Test.Each(context.Background(), nil, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
				if fc.Init != d.Test.Inits[i] || a[0].Values[0] != a[0].Values[0] {
					return fmt.Errorf("sample %d is of %s", i, fc.Init)
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
	}
	for _, empty := range []func(i ensemble.Init) bool{func(i ensemble.Init) bool { return slices.Contains(whole.Validation.Inits, i) }, func(ensemble.Init) bool { return true }} {
		if _, err := samples.ReadData(context.Background(), c, forecasts, write("empty.nc", empty), nil); exit.CodeOf(err) != exit.BadData {
			t.Errorf("no validation or no value at all: %v, want exit code 65", err)
		}
	}
}

// The split is checked before fields are read: files that the check removes cannot be read after it.
func TestSplitIsCheckedBeforeReading(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	var copies []string
	for _, path := range f.GRIB2 {
		content, err := os.ReadFile(path)
		runtest.Must(t, err)
		copies = append(copies, filepath.Join(t.TempDir(), filepath.Base(path)))
		runtest.Must(t, os.WriteFile(copies[len(copies)-1], content, 0o644))
	}
	read := func(suffices func(*samples.Data) error) error {
		d, err := samples.ReadCheckedData(context.Background(), c, copies, f.Analyses, nil, suffices)
		if err == nil {
			err = d.Close()
		}
		return err
	}
	enough := func(d *samples.Data) error {
		if len(d.Split.Train) == 0 {
			t.Error("no split")
		}
		return nil
	}
	runtest.Must(t, read(enough))
	few := errors.New("few")
	if err := read(func(*samples.Data) error { return few }); !errors.Is(err, few) {
		t.Errorf("%v, want the error of the check", err)
	}
	err := read(func(d *samples.Data) error {
		for _, path := range copies {
			runtest.Must(t, os.Remove(path))
		}
		return enough(d)
	})
	if exit.CodeOf(err) == exit.OK {
		t.Error("fields were read before the check")
	}
}
