// Package gcm compares scores and baselines with the reference scores that come with the global circulation
// model's ensemble.
package gcm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// target is one of the four forecast quantities of the reference.
type target struct {
	name     string // key in reference_scores.json
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
	unit     string
}

var targets = []target{
	{"t850_96h", "t", ensemble.PressureLevel(850), ensemble.Lead(96 * time.Hour), "K"},
	{"z500_96h", "gh", ensemble.PressureLevel(500), ensemble.Lead(96 * time.Hour), "m"},
	{"t850_48h", "t", ensemble.PressureLevel(850), ensemble.Lead(48 * time.Hour), "K"},
	{"z500_48h", "gh", ensemble.PressureLevel(500), ensemble.Lead(48 * time.Hour), "m"},
}

// cube holds all inits of one target.
type cube struct {
	grid    *ensemble.Grid
	inits   []ensemble.Init
	members [][][]float32 // [init][member][point]
	obs     [][]float32   // [init][point]
}

// trainInits is the number of training inits in the suggested split; all others are for testing.
const trainInits = 105

// load reads the targets from the files.
func load(t *testing.T) []cube {
	t.Helper()
	dir := testdata.Dir(t, "gcm")
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	read := func(pattern string, want func(e ensemble.Entry) bool, visit func(f *ensemble.Field)) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		in, err := fio.Open(context.Background(), files, fio.Options{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		entries := slices.DeleteFunc(slices.Clone(in.Catalogue().Entries), func(e ensemble.Entry) bool { return !want(e) })
		if err := in.Read(context.Background(), entries, func(_ int, f *ensemble.Field) error { visit(f); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]cube, len(targets))
	find := func(variable string, level ensemble.Level) []int {
		var at []int
		for i, q := range targets {
			if q.variable == variable && q.level == level {
				at = append(at, i)
			}
		}
		return at
	}
	read("gcm_fc_*.grib2", func(e ensemble.Entry) bool { return e.Lead > 0 && len(find(e.Variable, e.Level)) > 0 }, func(f *ensemble.Field) {
		for _, i := range find(f.Key.Variable, f.Key.Level) {
			c := &out[i]
			if f.Key.Lead != targets[i].lead {
				continue
			}
			c.grid = f.Grid
			if n := len(c.inits); n == 0 || !c.inits[n-1].Equal(f.Key.Init.Time) { // sorted by init
				c.inits = append(c.inits, f.Key.Init)
				c.members = append(c.members, make([][]float32, 10))
			}
			c.members[len(c.members)-1][f.Key.Member] = f.Values
		}
	})
	for i := range out {
		out[i].obs = make([][]float32, len(out[i].inits))
	}
	read("gcm_an_*.nc", func(e ensemble.Entry) bool { return len(find(e.Variable, e.Level)) > 0 }, func(f *ensemble.Field) {
		for _, i := range find(f.Key.Variable, f.Key.Level) {
			c := &out[i]
			for d, init := range c.inits {
				if init.Valid(targets[i].lead).Equal(f.Key.Valid().Time) {
					if !c.grid.SameAs(f.Grid, 1e-4) {
						t.Fatalf("analysis on %v, forecasts on %v", f.Grid, c.grid)
					}
					c.obs[d] = f.Values
				}
			}
		}
	})
	for i, c := range out {
		if len(c.inits) != 135 {
			t.Fatalf("%s: %d inits, want 135", targets[i].name, len(c.inits))
		}
		for d := range c.inits {
			if c.obs[d] == nil || slices.ContainsFunc(c.members[d], func(f []float32) bool { return f == nil }) {
				t.Fatalf("%s: init %s is not complete", targets[i].name, c.inits[d])
			}
		}
	}
	return out
}

// meanStd returns mean and standard deviation (divisor M−1) of the first m members for all inits, consecutively.
func (c *cube) meanStd(m int) (mean, std []float32) {
	n := c.grid.Size()
	for _, fields := range c.members {
		mu, sd := make([]float32, n), make([]float32, n)
		for p := range n {
			var sum, sq float64
			for _, f := range fields[:m] {
				sum += float64(f[p])
			}
			sum /= float64(m)
			for _, f := range fields[:m] {
				sq += (float64(f[p]) - sum) * (float64(f[p]) - sum)
			}
			mu[p], sd[p] = float32(sum), float32(math.Sqrt(sq/float64(m-1)))
		}
		mean, std = append(mean, mu...), append(std, sd...)
	}
	return mean, std
}

// forecast predicts location and spread for one init.
type forecast func(d int) score.Sample

func TestReferenceScores(t *testing.T) {
	cubes := load(t)
	raw, err := os.ReadFile(filepath.Join(testdata.Dir(t, "gcm"), "reference_scores.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Scores map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for i, q := range targets {
		t.Run(q.name, func(t *testing.T) {
			ref := func(key string) float64 {
				var v float64
				if err := json.Unmarshal(file.Scores[q.name][key], &v); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				return v
			}
			params := func(key string) *published {
				var v []float64
				if err := json.Unmarshal(file.Scores[q.name][key], &v); err != nil || len(v) != 5 {
					t.Fatalf("%s: %v %v", key, v, err)
				}
				return &published{v[0], v[1], v[2], v[3], v[4]}
			}
			checkTarget(t, q, &cubes[i], ref, params, strings.HasSuffix(q.name, "_96h"))
		})
	}
}

// published are coefficients of the reference's EMOS: mu = m0 + a + b·(mean − m0), sigma = c + d·std.
type published struct{ m0, a, b, c, d float64 }

func (e *published) predict(mu, sigma, mean, std []float32) {
	for p := range mean {
		mu[p] = float32(e.m0 + e.a + e.b*(float64(mean[p])-e.m0))
		sigma[p] = float32(e.c + e.d*float64(std[p]))
	}
}

// checkTarget scores all baselines on the test initialisations of 1984, fitted on 1982 and 1983, and compares with
// the reference. fits enables the slow fits.
func checkTarget(t *testing.T, q target, c *cube, ref func(string) float64, params func(string) *published, fits bool) {
	n := c.grid.Size()
	weights := c.grid.Weights()
	at := func(all []float32, d int) []float32 { return all[d*n : (d+1)*n] }
	type statistics struct{ mean, std []float32 }
	stats := map[int]statistics{}
	for _, m := range []int{5, 10} {
		mean, std := c.meanStd(m)
		stats[m] = statistics{mean, std}
	}
	train := func(m int) *baseline.Set {
		s := &baseline.Set{Mean: stats[m].mean[:trainInits*n], Std: stats[m].std[:trainInits*n], Weights: weights}
		for d := range trainInits {
			s.Valid = append(s.Valid, c.inits[d].Valid(q.lead).Time)
			s.Obs = append(s.Obs, c.obs[d]...)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var systems []score.System
	var forecasts []forecast
	add := func(name string, gives score.Need, f forecast) {
		systems, forecasts = append(systems, score.System{Name: name, Provides: gives}), append(forecasts, f)
	}
	both := func(fill func(mu, sigma []float32, d int)) forecast {
		return func(d int) score.Sample {
			mu, sigma := make([]float32, n), make([]float32, n)
			fill(mu, sigma, d)
			return score.Sample{Mean: mu, Spread: sigma}
		}
	}
	valid := func(d int) time.Time { return c.inits[d].Valid(q.lead).Time }

	add("control", score.Mean, func(d int) score.Sample { return score.Sample{Mean: c.members[d][0]} })
	climate, err := baseline.FitClimatology(train(5))
	must(err)
	add("climatology", score.Mean|score.Spread, both(func(mu, sigma []float32, d int) { climate.Predict(mu, sigma, valid(d)) }))
	affine, err := baseline.FitAffineSpread(&baseline.Set{Valid: make([]time.Time, trainInits), Std: stats[5].std[:trainInits*n], Obs: stats[10].std[:trainInits*n], Weights: weights})
	must(err)
	add("affine", score.Spread, func(d int) score.Sample {
		sigma := make([]float32, n)
		affine.Predict(sigma, at(stats[5].std, d))
		return score.Sample{Spread: sigma}
	})
	for _, m := range []int{5, 10} {
		s := stats[m]
		name := func(kind string) string { return fmt.Sprintf("%s %d", kind, m) }
		add(name("raw"), score.Members, func(d int) score.Sample { return score.Sample{Members: c.members[d][:m]} })
		theirs := params(fmt.Sprintf("emos_global_%d_params", m))
		add(name("published"), score.Mean|score.Spread, both(func(mu, sigma []float32, d int) {
			theirs.predict(mu, sigma, at(s.mean, d), at(s.std, d))
		}))
		if !fits {
			continue
		}
		emos, err := baseline.FitEMOS(train(m), baseline.EMOSOptions{})
		must(err)
		add(name("emos"), score.Mean|score.Spread, both(func(mu, sigma []float32, d int) {
			emos.Predict(mu, sigma, at(s.mean, d), at(s.std, d))
		}))
		if m == 10 {
			continue // the reference is EMOS from 5 members
		}
		grid, err := baseline.FitGridEMOS(train(m), baseline.GridEMOSOptions{})
		must(err)
		add(name("grid"), score.Mean|score.Spread, both(func(mu, sigma []float32, d int) {
			grid.Predict(mu, sigma, at(s.mean, d), at(s.std, d), valid(d))
		}))
	}

	a, err := score.New(score.Target{Variable: q.variable, Level: q.level, Lead: q.lead, Unit: q.unit},
		score.Grid{Weights: weights, Name: "cos(latitude)"}, systems, score.Options{FullSpread: true})
	must(err)
	biasMap := make([]float64, n)
	for d := trainInits; d < len(c.inits); d++ {
		samples := make([]score.Sample, len(forecasts))
		for k, f := range forecasts {
			samples[k] = f(d)
		}
		must(a.Add(c.inits[d], score.Reference{Obs: c.obs[d], FullSpread: at(stats[10].std, d)}, samples))
		for p := range n {
			for _, f := range c.members[d] {
				biasMap[p] += (float64(f[p]) - float64(c.obs[d][p])) / float64(10*(len(c.inits)-trainInits))
			}
		}
	}
	res, err := a.Result(significance.Bootstrap{}, nil)
	must(err)
	value := func(id, system string) float64 {
		t.Helper()
		v := res.Find(id, system, q.variable, q.level.String(), q.lead.String())
		if v == nil {
			t.Fatalf("no %s of %s", id, system)
		}
		return float64(v.Value)
	}

	// The reference prints six decimals. Means and standard deviations are rounded to float32 here, 6e-8 of 5500 m, so
	// scores differ by up to three units of the last decimal.
	same := func(key string, got float64) {
		t.Helper()
		if want := ref(key); math.Abs(got-want) > max(1.5e-6, 5e-7*math.Abs(want)) {
			t.Errorf("%s: got %.6f, want %.6f", key, got, want)
		}
	}
	for key, v := range map[string]float64{
		"spread_10": value("spread", "raw 10"), "rmse_mean_10": value("rmse", "raw 10"), "rmse_mean_5": value("rmse", "raw 5"),
		"spread_error_ratio_10_corrected": value("spread_skill", "raw 10"), "bias_mean_10": value("bias", "raw 10"),
		"rmse_control": value("rmse", "control"), "bias_map_rms_10": rms(biasMap, weights),
		"crps_raw_10_plain": value("crps_plain", "raw 10"), "crps_raw_10_fair": value("crps_fair", "raw 10"), "crps_gauss_raw_10": value("crps_gauss", "raw 10"),
		"crps_raw_5_plain": value("crps_plain", "raw 5"), "crps_raw_5_fair": value("crps_fair", "raw 5"), "crps_gauss_raw_5": value("crps_gauss", "raw 5"),
		"crps_climatology": value("crps_gauss", "climatology"), "rmse_climatology": value("rmse", "climatology"),
		"crps_emos_global_5": value("crps_gauss", "published 5"), "crps_emos_global_10": value("crps_gauss", "published 10"),
		"rmse_std5_vs_std10": value("spread_rmse", "raw 5"), "rmse_std5_affine_vs_std10": value("spread_rmse", "affine"),
	} {
		same(key, v)
	}
	if !fits {
		return
	}
	for _, c := range []struct {
		system, key string
		limit       float64
	}{
		// The regression of the variance fits these data less well.
		{"emos 5", "crps_emos_global_5", 1.01 * ref("crps_emos_global_5")},
		{"emos 10", "crps_emos_global_10", 1.01 * ref("crps_emos_global_10")},
		{"grid 5", "crps_emos_grid_5", 1.01 * ref("crps_emos_grid_5")},
	} {
		got := value("crps_gauss", c.system)
		t.Logf("%s: CRPS %.6f, reference %.6f", c.system, got, ref(c.key))
		if got > c.limit {
			t.Errorf("%s: CRPS %.6f, want at most %.6f", c.system, got, c.limit)
		}
	}
}

// rms is the weighted root mean square of a map.
func rms(v, w []float64) float64 {
	var sum, weight float64
	for p, x := range v {
		sum += w[p] * x * x
		weight += w[p]
	}
	return math.Sqrt(sum / weight)
}
