package jobs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/io/product/encode"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// coarse is the grid that analyses of these tests come on.
const coarse = "40x20"

// dataOf reads the data of a training.
func dataOf(t *testing.T, c *config.TrainConfig, ranks *team.Team) (*samples.Data, error) {
	t.Helper()
	forecasts, analyses, err := samples.TrainingFiles(c)
	if err != nil {
		return nil, err
	}
	return samples.ReadData(context.Background(), c, forecasts, analyses, ranks)
}

// oneInit is the data of one initialisation.
type oneInit struct {
	forecast *ensemble.Forecast
	analysis *ensemble.Analysis
}

// samplesOf reads the samples of one part of the split.
func samplesOf(p samples.Examples) (out []oneInit, err error) {
	err = p.Each(context.Background(), nil, func(_ int, f *ensemble.Forecast, a []*ensemble.Analysis) error {
		fc, an := *f, *a[0]
		fc.Values, an.Values = slices.Clone(f.Values), slices.Clone(a[0].Values)
		out = append(out, oneInit{&fc, &an})
		return nil
	})
	return out, err
}

// firstParts reads the training samples.
func firstParts(t *testing.T, d *samples.Data) []oneInit {
	t.Helper()
	out, err := samplesOf(d.Train)
	t.Cleanup(func() { d.Close() })
	if err != nil || len(out) == 0 {
		t.Fatal(len(out), err)
	}
	return out
}

// coarseAnalyses writes the demonstration's analyses on the coarse grid.
func coarseAnalyses(t *testing.T, d *samples.Data) string {
	t.Helper()
	to, err := ensemble.NamedGrid(coarse)
	if err != nil {
		t.Fatal(err)
	}
	w := runtest.WeightsBetween(t, d.Grid, to, regrid.Bilinear)
	var out []*ensemble.Analysis
	for _, p := range []samples.Examples{d.Train, d.Validation, d.Test} {
		samples, err := samplesOf(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			a := s.analysis
			b := ensemble.NewAnalysis(a.Valid, a.Variables, a.Levels, to)
			for v := range a.Variables {
				for l := range a.Levels {
					regrid.Apply(w, b.Field(v, l), a.Field(v, l))
				}
			}
			out = append(out, b)
		}
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	path := filepath.Join(t.TempDir(), "analyses.nc")
	if err := (demo.Encoder{Pool: pool}).WriteAnalyses(context.Background(), path, out); err != nil {
		t.Fatal(err)
	}
	return path
}

// Forecasts and analyses on different grids are refused with the key that helps. With this key they are read
// together: from files, from a store, complete and in slabs of ranks.
func TestDataOnOneGrid(t *testing.T) {
	f := demotest.Files(t)
	few := "data.forecasts=[" + strings.Join(f.GRIB2[:4], ", ") + "]"
	plain, err := dataOf(t, demotest.Config(t, f, few), nil)
	if err != nil {
		t.Fatal(err)
	}
	source := firstParts(t, plain)[0]
	an := "data.analyses=[" + coarseAnalyses(t, plain) + "]"
	_, err = dataOf(t, demotest.Config(t, f, few, an), nil)
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.BadData || e.What != "grids differ" || !strings.Contains(e.Fix, "grid: {to: forecasts}") {
		t.Fatalf("two grids: %v", err)
	}
	for _, c := range []struct {
		to     string
		method regrid.Method
		ny     int
		store  bool
		mesh   string // of two ranks, which read slabs
	}{{"analyses", regrid.Bilinear, 20, false, "lat:2"}, {"forecasts", regrid.Nearest, plain.Grid.NY, false, ""}, {"12deg", regrid.Conservative, 16, true, ""}} {
		set := []string{few, an, "data.grid.to=" + c.to, "data.grid.method=" + string(c.method)}
		got, err := dataOf(t, demotest.Config(t, f, set...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Grid.NY != c.ny {
			t.Errorf("%s: grid %s, want %d rows", c.to, got.Grid, c.ny)
		}
		first := firstParts(t, got)[0]
		if got.Grid != plain.Grid && !got.Grid.SameAs(plain.Grid, 0) {
			src := source.forecast
			want := make([]float32, got.Grid.Size())
			regrid.Apply(runtest.WeightsBetween(t, plain.Grid, got.Grid, c.method), want, src.Field(2, 1, 0, 1))
			if !slices.Equal(first.forecast.Field(2, 1, 0, 1), want) {
				t.Errorf("%s: forecasts are not interpolated by %s", c.to, c.method)
			}
		}
		if a := first.analysis; !a.Grid.SameAs(got.Grid, input.GridTolerance) || len(a.Values) != len(a.Variables)*len(a.Levels)*got.Grid.Size() {
			t.Errorf("%s: analyses are on %s", c.to, a.Grid)
		}
		if c.store {
			stored, err := dataOf(t, demotest.Config(t, f, append(set, "data.store="+samplestest.PrepareStore(t, demotest.Config(t, f, set...), "f32"))...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if s := firstParts(t, stored)[0]; !runtest.EqualBits(s.forecast.Values, first.forecast.Values) || !runtest.EqualBits(s.analysis.Values, first.analysis.Values) {
				t.Errorf("%s: a store has other values than the files", c.to)
			}
		}
		if c.mesh == "" {
			continue
		}
		err = comm.Run(2, comm.Parallel, func(g *comm.Comm) error {
			ranks := team.New(g)
			part, err := dataOf(t, demotest.Config(t, f, append(set, "train.mesh="+c.mesh)...), ranks)
			if err != nil {
				return err
			}
			own := ranks.Shard()
			want := ensemble.CropField(first.forecast.Field(2, 1, 0, 0), got.Grid, own.Window())
			samples, err := samplesOf(part.Train)
			if err != nil {
				return err
			}
			if !slices.Equal(samples[0].forecast.Field(2, 1, 0, 0), want) {
				return fmt.Errorf("rank %d has another slab", g.Rank())
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s on %s: %v", c.to, c.mesh, err)
		}
	}
}

// reducedCopy writes the fields of a forecast file on the reduced Gaussian grid N32.
func reducedCopy(t *testing.T, pool *decode.Pool, path string) string {
	t.Helper()
	in, err := fio.Open(context.Background(), []string{path}, fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	entries := in.Catalogue().Entries
	const sample = "reduced_gg_pl_32_grib2"
	write := func(to string, g encode.GRIB, values []float32) {
		if err := pool.Do(context.Background(), decode.Call{Kind: encode.KindGRIB, Args: g, InputBytes: 4 * len(values), WriteInput: func(dst []byte) {
			for i, v := range values {
				binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
			}
		}, ReadFile: func(from io.Reader) error {
			all, err := io.ReadAll(from)
			if err != nil {
				return err
			}
			return os.WriteFile(to, all, 0o666)
		}}); err != nil {
			t.Fatal(err)
		}
	}
	// The sample has the grid: written with zeros, its points are read.
	const points = 6114
	first := filepath.Join(t.TempDir(), "sample.grib2")
	write(first, encode.GRIB{Bases: []encode.Base{{Sample: sample}}, Messages: []encode.Message{{Values: encode.Block{Length: 4 * points}, Packing: "grid_simple", Bits: 8}}}, make([]float32, points))
	like, err := fio.Open(context.Background(), []string{first}, fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer like.Close()
	grid := like.Catalogue().Entries[0].Grid
	if grid.Kind != ensemble.ReducedGaussian || len(grid.Rows) != 64 {
		t.Fatalf("the sample is on %s", grid)
	}
	w := runtest.WeightsBetween(t, entries[0].Grid, grid, regrid.Bilinear)
	init := entries[0].Init.UTC()
	g := encode.GRIB{Bases: []encode.Base{{Sample: sample, Keys: []encode.Key{
		encode.LongKey("year", int64(init.Year())), encode.LongKey("month", int64(init.Month())), encode.LongKey("day", int64(init.Day())), encode.LongKey("hour", int64(init.Hour())),
		encode.LongKey("productDefinitionTemplateNumber", 1)}}}}
	var values []float32
	if err := in.Read(context.Background(), entries, func(i int, f *ensemble.Field) error {
		v, _ := ensemble.VariableNamed(f.Key.Variable)
		g.Messages = append(g.Messages, encode.Message{Packing: "grid_simple", Bits: 24, Values: encode.Block{Offset: 4 * len(values), Length: 4 * points}, Keys: []encode.Key{
			encode.LongKey("discipline", int64(v.Discipline)), encode.LongKey("parameterCategory", int64(v.Category)), encode.LongKey("parameterNumber", int64(v.Number)),
			encode.LongKey("typeOfFirstFixedSurface", 100), encode.LongKey("scaleFactorOfFirstFixedSurface", 0), encode.LongKey("scaledValueOfFirstFixedSurface", int64(f.Key.Level.Value)),
			encode.LongKey("forecastTime", int64(f.Key.Lead.Hours())), encode.LongKey("perturbationNumber", int64(f.Key.Member)), encode.LongKey("typeOfEnsembleForecast", 3),
			encode.LongKey("numberOfForecastsInEnsemble", 4)}})
		out := make([]float32, points)
		regrid.Apply(w, out, f.Values)
		values = append(values, out...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "reduced.grib2")
	write(path, g, values)
	return path
}

// A model predicts from input on other grids, including reduced ones, with the interpolation of its training
// or a requested one. Products are on its own grid, and are verified with analyses on another grid.
func TestPredictFromAnotherGrid(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	if _, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.epochs=1", "train.networks=1", "data.grid.to=12deg", "data.grid.min_valid=0.4"), RunDir: runDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	means := map[string][]float32{}
	var files []string
	for name, input := range map[string]string{"own": f.GRIB2[19], "reduced": reducedCopy(t, pool, f.GRIB2[19])} {
		r, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: []string{input}, Out: t.TempDir(), Formats: []product.Format{product.NetCDF, product.GRIB2}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range r.Outputs {
			if ext := filepath.Ext(path); ext != ".nc" && ext != ".grib2" {
				continue
			}
			in, err := fio.Open(context.Background(), []string{path}, fio.Options{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range in.Catalogue().Entries {
				if e.Grid.Kind != ensemble.RegularLatLon || e.Grid.NX != 30 || e.Grid.NY != 16 {
					t.Errorf("%s has a product on %s", filepath.Base(path), e.Grid)
				}
				if e.Product == ensemble.EnsembleMean && filepath.Ext(path) == ".nc" {
					field, err := in.ReadOne(context.Background(), e)
					if err != nil {
						t.Fatal(err)
					}
					means[name] = field.Values
				}
			}
			in.Close()
			if name == "own" && filepath.Ext(path) == ".nc" {
				files = append(files, path)
			}
		}
	}
	// Interpolated twice, a field of this grid is smoother by up to some tenths of a degree.
	off := 0.0
	for i, v := range means["own"] {
		off = max(off, math.Abs(float64(v-means["reduced"][i])))
	}
	if len(means["own"]) == 0 || off > 2 || off == 0 {
		t.Errorf("means of %d points differ by %g K", len(means["own"]), off)
	}
	analyses, err := filepath.Glob(filepath.Join(filepath.Dir(f.GRIB2[0]), "demo_an_*.nc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Run(context.Background(), verify.Options{Forecast: files, Analysis: analyses, RunDir: runDir}); err != nil {
		t.Errorf("verification with the interpolation of the training: %v", err)
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (task.Interpolation{Method: regrid.Bilinear, MinValid: 0.4}); m.Interpolation != want {
		t.Errorf("the model keeps %v, want %v", m.Interpolation, want)
	}
	m.Interpolation = task.Interpolation{}
	if err := m.Save(filepath.Join(runDir, "model")); err != nil {
		t.Fatal(err)
	}
	traintest.UpdateModelChecksum(t, runDir)
	o := predict.Options{RunDir: runDir, Input: f.GRIB2[19:], Out: t.TempDir(), Formats: []product.Format{product.NetCDF}, Version: "test"}
	var e *exit.Error
	if _, err := predict.Run(context.Background(), o); !errors.As(err, &e) || e.What != "grids differ" || !strings.Contains(e.Fix, "--regrid") {
		t.Errorf("without an interpolation: %v", err)
	}
	o.Regrid = input.InterpolationByName("nearest")
	if _, err := predict.Run(context.Background(), o); err != nil {
		t.Errorf("with a requested one: %v", err)
	}
	v := verify.Options{Forecast: files, Analysis: analyses, RunDir: runDir}
	if _, err := verify.Run(context.Background(), v); exit.CodeOf(err) != exit.BadData {
		t.Errorf("verification on two grids: %v", err)
	}
	v.Regrid = input.InterpolationByName("conservative")
	if _, err := verify.Run(context.Background(), v); err != nil {
		t.Errorf("verification with a requested interpolation: %v", err)
	}
}
