package jobs

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// rainArchive is a synthetic archive of rain in GRIB2: members as sums from the initialisation to 12 h and 24 h, and the
// members' largest 2 m temperature of the 24 h, beside 2 m temperature; analyses as sums over 12 h.
type rainArchive struct {
	forecasts, analyses []string
	inits               []ensemble.Init
	second              map[ensemble.Valid][]float32 // analysed rain from 12 h to 24 h
}

const rainMembers = 4

// writeRain writes the archive.
func writeRain(t *testing.T, inits int) *rainArchive {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{Children: 1, Program: testdecoder.Path(t)})
	runtest.Must(t, err)
	t.Cleanup(pool.Close)
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 8, NY: 6, Lat: []float64{60, 55, 50, 45, 40, 35}, Lon: []float64{0, 5, 10, 15, 20, 25, 30, 35}}
	random := rand.New(rand.NewPCG(3, 4))
	a := &rainArchive{second: map[ensemble.Valid][]float32{}}
	dir, n := t.TempDir(), grid.Size()
	write := func(path string, init ensemble.Init, fields []product.Field) {
		for i := range fields {
			fields[i].Members = rainMembers
		}
		runtest.Must(t, product.WriteGRIB2(context.Background(), pool, path, &product.Product{Init: init, Grid: grid, Fields: fields,
			Metadata: product.Metadata{Members: []ensemble.Member{0, 1, 2, 3}}}, product.Options{}))
	}
	field := func(variable string, m, lead, period int, method string, values []float32) product.Field {
		v, _ := ensemble.VariableNamed(variable)
		return product.Field{Variable: variable, Level: v.Level, Lead: ensemble.Lead(time.Duration(lead) * time.Hour), Kind: product.Member, Member: ensemble.Member(m), Values: values,
			Period: time.Duration(period) * time.Hour, Method: method}
	}
	for d := range inits {
		init := ensemble.InitAt(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, 2*d))
		a.inits = append(a.inits, init)
		observed := [2][]float32{make([]float32, n), make([]float32, n)}
		for half := range observed {
			for p := range n {
				observed[half][p] = float32(max(0, 6*random.NormFloat64()))
			}
		}
		valid := init.Valid(ensemble.Lead(24 * time.Hour))
		a.second[valid] = observed[1]
		var of [4][]product.Field // tp to 12 h, tp to 24 h, 2t, its maximum
		for m := range rainMembers {
			sum, later, t2, warmest := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
			for p := range n {
				sum[p] = max(0, observed[0][p]*1.2+float32(random.NormFloat64()))
				later[p] = sum[p] + max(0, observed[1][p]*1.2+float32(random.NormFloat64()))
				t2[p], warmest[p] = 280+float32(random.NormFloat64()), 285+float32(random.NormFloat64())
			}
			of[0] = append(of[0], field("tp", m, 12, 12, "sum", sum))
			of[1] = append(of[1], field("tp", m, 24, 24, "sum", later))
			of[2] = append(of[2], field("2t", m, 24, 0, "", t2))
			of[3] = append(of[3], field("2t", m, 24, 24, "maximum", warmest))
		}
		for k, fields := range of {
			path := filepath.Join(dir, fmt.Sprintf("fc_%02d_%d.grib2", d, k))
			write(path, init, fields)
			a.forecasts = append(a.forecasts, path)
		}
		for half, values := range observed { // as short forecasts of the control
			path := filepath.Join(dir, fmt.Sprintf("an_%02d_%d.grib2", d, half))
			write(path, ensemble.InitAt(init.Add(time.Duration(12*half)*time.Hour)), []product.Field{field("tp", 0, 12, 12, "sum", values)})
			a.analyses = append(a.analyses, path)
		}
	}
	return a
}

// config returns a quick training on the archive.
func (a *rainArchive) config(t *testing.T, set ...string) *config.TrainConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.yaml")
	runtest.Must(t, os.WriteFile(path, fmt.Appendf(nil, `version: 1
data:
  forecasts: ["%s"]
  analyses: ["%s"]
  members: {use: 4, full: 4}
  leads: [24h]
  target_lead: 24h
  levels: [single]
  variables: [tp, 2t]
  targets: [{variable: tp, levels: [single], statistic: sum, interval: 12h}]
  statistics: [{variable: 2t, statistic: maximum, interval: 24h}]
  intervals: as_is
  split: {fractions: {train: 0.6, validation: 0.2}}
model: {kind: drn, base: 4, family: censored_shifted_gamma}
train: {epochs: 2, batch_size: 4, learning_rate: 0.01, threads: 1}
baselines: [emos, emos_csg]
`, strings.Join(a.forecasts, `", "`), strings.Join(a.analyses, `", "`)), 0o644))
	c, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: set, IgnoreEnvironment: true})
	runtest.Must(t, err)
	return c
}

// Rain of an interval that must be computed is trained, predicted and verified, and the products have the interval.
func TestAccumulations(t *testing.T) {
	ctx := context.Background()
	a := writeRain(t, 20)
	twelve := a.config(t, "data.intervals=12h", "data.statistics=[{variable: 2t, statistic: instant}]")
	runDir := filepath.Join(t.TempDir(), "run")
	found, err := check.Run(ctx, check.Options{Config: twelve})
	if err != nil || slices.ContainsFunc(found.Faults, func(f input.Fault) bool { return f.Code != exit.OK }) {
		t.Errorf("check: %v, %+v", err, found)
	}
	trained, err := train.Run(ctx, train.Options{Config: twelve, RunDir: runDir, Version: "test"})
	runtest.Must(t, err)
	if !slices.ContainsFunc(trained.Warnings, func(w string) bool {
		return strings.Contains(w, "80 fields computed from other intervals") && strings.Contains(w, "sum over 12h from sum over 24h at lead 24h minus sum over 12h at lead 12h")
	}) {
		t.Errorf("warnings %q", trained.Warnings)
	}
	last := a.inits[len(a.inits)-1]
	predicted, err := predict.Run(ctx, predict.Options{RunDir: runDir, Input: a.forecasts, Init: last.Time, Out: t.TempDir(), Formats: []product.Format{product.NetCDF, product.GRIB2}, Version: "test",
		Publish: runtest.Publishing(t, "products=[mean, spread, members, quantiles, probabilities]", "quantiles=[0.9]", "probabilities=[tp>1 mm]")})
	runtest.Must(t, err)
	in, err := fio.Open(ctx, slices.DeleteFunc(slices.Clone(predicted.Outputs), func(p string) bool { return filepath.Ext(p) != ".nc" && filepath.Ext(p) != ".grib2" }), fio.Options{})
	runtest.Must(t, err)
	defer in.Close()
	twelveHours := ensemble.TimeStatistic{Statistic: "sum", Interval: ensemble.Lead(12 * time.Hour)}
	if n := len(in.Catalogue().Entries); n != 2*(4+rainMembers) {
		t.Errorf("%d fields in products", n)
	}
	runtest.Must(t, in.Read(ctx, in.Catalogue().Entries, func(i int, f *ensemble.Field) error {
		if e := in.Catalogue().Entries[i]; e.TimeStatistic() != twelveHours || e.Variable != "tp" || e.Lead.Hours() != 24 || e.Init != last {
			t.Errorf("%s in %s is %s", e.Key, filepath.Base(e.File), e.TimeStatistic())
		}
		for _, v := range f.Values {
			if v < 0 {
				t.Errorf("%s has %g", f.Key, v)
				break
			}
		}
		return nil
	}))
	nc := slices.DeleteFunc(slices.Clone(predicted.Outputs), func(p string) bool { return filepath.Ext(p) != ".nc" })
	scores, err := verify.Run(ctx, verify.Options{Forecast: nc, Analysis: a.analyses, Members: a.forecasts, RunDir: runDir})
	if err != nil || len(scores.Scores.Scores) == 0 {
		t.Fatalf("verify: %v", err)
	}
	checkRMSE(t, predicted.Outputs, a.second[last.Valid(ensemble.Lead(24*time.Hour))], float64(scores.Scores.Scores[slices.IndexFunc(scores.Scores.Scores, func(s score.Value) bool { return s.ID == "rmse" })].Value))

	// Analyses of 24 h verify nothing of 12 h.
	_, err = verify.Run(ctx, verify.Options{Forecast: nc, Analysis: a.forecasts[len(a.forecasts)-4+1:][:1]})
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "tp: windows of 12 h and 24 h") {
		t.Errorf("verify with other analyses: %v", err)
	}
}

// Where a choice is not unique, or forecasts and analyses differ, checks and trainings stop with the same message.
func TestAccumulationsOfOtherIntervals(t *testing.T) {
	ctx := context.Background()
	a := writeRain(t, 10)
	for _, c := range []struct {
		set  []string
		text string
		code exit.Code
	}{
		{[]string{"data.targets=[{variable: tp, levels: [single], statistic: sum, interval: 24h}]"}, "tp: windows of 24 h and 12 h", exit.BadData},
		{[]string{"data.statistics=[{variable: 2t, interval: 6h}]", "data.intervals=12h"}, "no 2t over the requested interval", exit.BadData},
		{[]string{"data.statistics=[{variable: tp, statistic: sum}]", "data.intervals=12h"}, "{variable: 2t, statistic: instant} or {variable: 2t, statistic: maximum, interval: 24h}", exit.Usage},
		{nil, "no tp over the requested interval", exit.BadData},
	} {
		cfg := a.config(t, c.set...)
		_, err := train.Run(ctx, train.Options{Config: cfg, RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
		if exit.CodeOf(err) != c.code || !strings.Contains(strings.ReplaceAll(err.Error(), "`", ""), c.text) {
			t.Errorf("%v: train: %v", c.set, err)
		}
		found, err := check.Run(ctx, check.Options{Config: cfg})
		if found == nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found.Faults, func(f input.Fault) bool {
			return f.Code == c.code && f.Kind == input.FaultInterval && strings.Contains(strings.ReplaceAll(f.What+f.Fix, "`", ""), c.text)
		}) {
			t.Errorf("%v: check: %+v", c.set, found.Faults)
		}
	}
}

// A sample store holds the computed intervals, and refuses a configuration that requests others.
func TestAccumulationsInStore(t *testing.T) {
	ctx := context.Background()
	a := writeRain(t, 10)
	out := filepath.Join(t.TempDir(), "store")
	set := []string{"data.intervals=12h", "data.statistics=[{variable: 2t, statistic: instant}]", "train.epochs=1"}
	if _, err := samples.Prepare(ctx, samples.PrepareOptions{Config: a.config(t, set...), Out: out, Storage: "f32", Version: "test"}); err != nil {
		t.Fatal(err)
	}
	var runs []string
	for _, more := range [][]string{nil, {"data.store=" + out}} {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := train.Run(ctx, train.Options{Config: a.config(t, slices.Concat(set, more)...), RunDir: dir, Version: "test"})
		runtest.Must(t, err)
		runs = append(runs, runtest.Digest(t, dir))
	}
	if runs[0] != runs[1] {
		t.Error("the store and the files give different models")
	}
	_, err := train.Run(ctx, train.Options{Config: a.config(t, "data.intervals=24h", "data.targets=[{variable: tp, levels: [single]}]", "data.store="+out), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "another statistic of tp") {
		t.Errorf("other interval: %v", err)
	}
}

// checkRMSE compares a score with that of the published mean and the sum of the interval.
func checkRMSE(t *testing.T, outputs []string, observed []float32, got float64) {
	t.Helper()
	at := slices.IndexFunc(outputs, func(p string) bool { return strings.HasSuffix(p, "_tp_mean.grib2") })
	for k, f := range runtest.FieldsOf(t, outputs[at]) {
		sum, weights := 0.0, 0.0
		for p, v := range f.Values {
			w := f.Grid.Weights()[p]
			sum += w * math.Pow(float64(v-observed[p]), 2)
			weights += w
		}
		if want := math.Sqrt(sum / weights); math.Abs(got-want) > 1e-3*want {
			t.Errorf("%s: RMSE %g, want %g", k, got, want)
		}
	}
}
