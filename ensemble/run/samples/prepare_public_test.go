package samples_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// TestRanksReadStoreSlabs checks that each rank reads its slab of a store, equal to its slab of the files.
func TestRanksReadStoreSlabs(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "f32")
	for _, mesh := range []struct {
		text  string
		ranks int
	}{{"lat:2", 2}, {"lon:3", 3}, {"level:2 lat:2", 4}} {
		files := demotest.Config(t, f, "train.mesh="+mesh.text)
		stored := demotest.Config(t, f, "train.mesh="+mesh.text, "data.store="+dir)
		err := comm.Run(mesh.ranks, comm.Parallel, func(g *comm.Comm) error {
			forecasts, analyses, err := samples.ArchiveFiles(files)
			if err != nil {
				return err
			}
			want, err := samples.ReadData(context.Background(), files, forecasts, analyses, team.New(g))
			if err != nil {
				return err
			}
			got, err := samples.ReadData(context.Background(), stored, nil, nil, team.New(g))
			if err != nil {
				return err
			}
			defer got.Close()
			for i, p := range []samples.Examples{want.Train, want.Validation, want.Test} {
				q := []samples.Examples{got.Train, got.Validation, got.Test}[i]
				if len(p.Inits) == 0 || len(q.Inits) != len(p.Inits) || !p.Analysed || !q.Analysed {
					return fmt.Errorf("%d starts, want %d", len(q.Inits), len(p.Inits))
				}
				from := q.Stream(context.Background(), nil)
				defer from.Close()
				err := p.Each(context.Background(), nil, func(_ int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
					f, b, err := from.NextForecast()
					if err == nil && (f.Init != fc.Init || b[0].Valid != a[0].Valid || !runtest.EqualBits(f.Values, fc.Values) || !runtest.EqualBits(b[0].Values, a[0].Values)) {
						err = fmt.Errorf("initialisation %s differs", fc.Init)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", mesh.text, err)
		}
	}
}

// TestStoreLacks checks that missing content of a store is refused by name.
func TestStoreLacks(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "int16")
	for _, c := range []struct {
		set, want string
		code      exit.Code
	}{
		{"data.variables=[t, gh, u]", "variable u", exit.Usage},
		{"data.leads=[0h, 12h, 48h]", "lead 12h", exit.Usage},
		{"data.targets=[{variable: gh, levels: [850hPa]}]", "analysis of gh", exit.Usage},
		{"data.members.full=5", "4 members", exit.NotYet},
		{"data.store=/nowhere", "/nowhere", exit.NotYet},
	} {
		_, err := samples.ReadData(context.Background(), demotest.Config(t, f, "data.store="+dir, c.set), nil, nil, nil)
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit %d and %q", c.set, err, c.code, c.want)
		}
	}
}

// TestStoreValuesAreChecked checks that invalid values are refused from a store as from files.
func TestStoreValuesAreChecked(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	dir := samplestest.PrepareStore(t, c, "f32")
	c.Data.Store = config.Path(dir)
	for _, factor := range []float32{1, 1000} {
		d, err := samples.ReadData(context.Background(), c, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		err = d.Validation.Each(context.Background(), nil, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
			for p := range fc.Grid.Size() {
				fc.Field(2, 1, 1, 1)[p] *= factor
			}
			d.ValueCheck.Add(fc, a)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.ValueCheck.Faults(nil)
		if factor == 1 && err != nil || factor != 1 && (exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "gh")) {
			t.Errorf("geopotential height times %g: %v", factor, err)
		}
	}
}
