//go:build long

package verify

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// syntheticErrors are daily errors of which the points share a part, with a memory from day to day.
type syntheticErrors struct {
	memory, bias float64 // of the shared part; in units of the RMSE
	shared       float64
	r            *rand.Rand
}

// next are the errors of a day, of unit variance before the bias; their part that is not shared has no pattern.
func (i *syntheticErrors) next(points int) []float64 {
	const part = 0.4
	i.shared = i.memory*i.shared + math.Sqrt(1-i.memory*i.memory)*i.r.NormFloat64()
	out := make([]float64, points)
	for p := range out {
		out[p] = part*i.shared + math.Sqrt(1-part*part)*i.r.NormFloat64() + i.bias/math.Sqrt(1-i.bias*i.bias)
	}
	return out
}

// The rate of false alarms of a single check: independent windows of 30 days, without bias and with a bias at
// the edge of its band, with the confidence intervals of alarms. A correct 95 % interval lies beyond the edge
// in 2.5 % of windows.
func TestLongRateOfFalseAlarms(t *testing.T) {
	const windows, points = 3000, 24
	for _, c := range []struct {
		memory, bias float64
		most         float64 // of the rate; docs/verification.md states it
	}{{0, 0, 0.002}, {0.6, 0, 0.005}, {0, DefaultBands.Bias, 0.03}, {0.6, DefaultBands.Bias, 0.04}} {
		e := &syntheticErrors{memory: c.memory, bias: c.bias, r: rand.New(rand.NewPCG(16, 3))}
		alarms := 0
		for range windows {
			rows := make([][]float64, defaultWindow)
			var square float64
			for d := range rows {
				var sum float64
				for _, x := range e.next(points) {
					sum += x / points
					square += x * x / points / defaultWindow
				}
				rows[d] = []float64{sum, 1}
			}
			value, low, high, err := significance.Bootstrap{}.Interval(rows, func(s []float64) float64 { return s[0] / s[1] })
			runtest.Must(t, err)
			rmse := math.Sqrt(square)
			r := &RollingResult{Alarms: &promote.Alarms{}}
			r.addScore(promote.Alarm{Kind: "bias", Value: score.Number(value / rmse), CILow: score.Number(low / rmse), CIHigh: score.Number(high / rmse),
				BandLow: score.Number(-DefaultBands.Bias), BandHigh: score.Number(DefaultBands.Bias)})
			alarms += len(r.Alarms.Alarms)
		}
		rate := float64(alarms) / windows
		t.Logf("memory %g, bias %.2f of the RMSE: %.2f %% of the looks raise an alarm", c.memory, c.bias, 100*rate)
		if rate > c.most {
			t.Errorf("memory %g, bias %g: a rate of %g, more than %g", c.memory, c.bias, rate, c.most)
		}
	}
}

// A year of daily synthetic initialisations of 20 independent targets, through files and calls. Before the
// model changes on day 200 alarms are as rare as the bands allow; then alarms of the right kind appear within
// one window, and for no other target.
func TestLongYearOfAlarms(t *testing.T) {
	const days, change = 245, 200
	groups := []struct {
		variable string
		usual    float64 // its value
		memory   float64
		bias     float64
		after    func(e float64) float64 // change of the errors
		kind     string                  // of the alarms
	}{
		{"t", 270, 0.6, 0, func(e float64) float64 { return e }, ""},
		{"u", 20, 0.6, 0, func(e float64) float64 { return e + 1 }, "bias"},
		{"v", 20, 0.6, 0, func(e float64) float64 { return 1.7 * e }, "spread_skill"},
		{"r", 50, 0.6, DefaultBands.Bias, func(e float64) float64 { return e }, ""},
	}
	var levels []ensemble.Level
	for _, p := range []float64{250, 500, 700, 850, 925} {
		levels = append(levels, ensemble.PressureLevel(p))
	}
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 6, NY: 4, Lat: []float64{60, 55, 50, 45}, Lon: []float64{0, 5, 10, 15, 20, 25}}
	g.Source.ScanningMode = -1
	ctx, dir, lead := context.Background(), t.TempDir(), ensemble.Lead(24*time.Hour)
	first := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{})
	runtest.Must(t, err)
	defer pool.Close()
	runtest.Must(t, os.Mkdir(filepath.Join(dir, "an"), 0o755))
	var variables []string
	series := map[string]*syntheticErrors{}
	for i, group := range groups {
		variables = append(variables, group.variable)
		for l, level := range levels {
			series[group.variable+level.String()] = &syntheticErrors{memory: group.memory, bias: group.bias, r: rand.New(rand.NewPCG(uint64(i), uint64(l)))}
		}
	}
	products, analyses := make([]string, days), make([]string, days)
	for day := range days {
		init := ensemble.InitAt(first.AddDate(0, 0, day))
		a := ensemble.NewAnalysis(init.Valid(lead), variables, levels, g)
		p := &product.Product{Init: init, Grid: g, Metadata: product.Metadata{Title: "invented", Members: []ensemble.Member{1, 2, 3}, ModelChecksum: "sha256:invented", DDOF: 1, ForecastType: "invented"}}
		for v, group := range groups {
			for l, level := range levels {
				e := series[group.variable+level.String()]
				errors := e.next(g.Size())
				mean, spread, y := make([]float32, g.Size()), make([]float32, g.Size()), a.Field(v, l)
				for q, x := range errors {
					if day >= change {
						x = group.after(x)
					}
					mean[q], spread[q] = float32(group.usual+e.r.NormFloat64()), float32(1/math.Sqrt(1-e.bias*e.bias))
					y[q] = mean[q] + float32(x)
				}
				for kind, values := range map[product.Kind][]float32{product.Mean: mean, product.Spread: spread} {
					p.Fields = append(p.Fields, product.Field{Variable: group.variable, Level: level, Lead: lead, Kind: kind, Values: values})
				}
			}
		}
		analyses[day] = filepath.Join(dir, "an", fmt.Sprintf("%03d.nc", day))
		runtest.Must(t, product.WriteAnalysesNetCDF(ctx, pool, analyses[day], []*ensemble.Analysis{a}, product.Metadata{Title: "invented"}, product.Options{}))
		_, _, err := product.Publish(ctx, pool, filepath.Join(dir, "products"), p, product.Publication{})
		runtest.Must(t, err)
		files, err := filepath.Glob(filepath.Join(product.InitDir(filepath.Join(dir, "products"), init), "*.nc"))
		runtest.Must(t, err)
		products[day] = files[0]
	}
	looks, before, after := 0, map[string]int{}, map[string]int{}
	verified := 0
	for day := 30; day <= days; day++ { // a look at the starts before it
		if day < change && day%5 != 0 {
			continue
		}
		r, err := Rolling(ctx, RollingOptions{Options: Options{Forecast: products[verified:day], Analysis: analyses[verified:day]}, Dir: filepath.Join(dir, "rolling")})
		runtest.Must(t, err)
		verified = day
		if day <= change {
			looks += len(levels)
		}
		for _, a := range r.Alarms.Alarms {
			if day <= change {
				before[a.Kind+" of "+a.Variable]++
				continue
			}
			if key := a.Kind + " of " + a.Variable + " at " + a.Level; after[key] == 0 {
				after[key] = day - change
			}
		}
	}
	for what, n := range before {
		t.Logf("before the change: %s: %d of %d looks", what, n, looks)
	}
	for what, n := range after {
		t.Logf("after the change: %s, by %d starts", what, n)
	}
	for _, group := range groups {
		for _, kind := range []string{"bias", "spread_skill", "pit"} {
			if n := before[kind+" of "+group.variable]; float64(n) > 0.15*float64(looks) || group.bias == 0 && float64(n) > 0.02*float64(looks) {
				t.Errorf("%s of %s: %d alarms before the change, on %d looks", kind, group.variable, n, looks)
			}
		}
		for _, level := range levels {
			if n := after[group.kind+" of "+group.variable+" at "+level.String()]; group.kind != "" && (n == 0 || n > defaultWindow+10) { // a bias of 0.7 of the RMSE, with memory, needs up to 37
				t.Errorf("%s of %s at %s: an alarm by %d initialisations after the change", group.kind, group.variable, level, n)
			}
		}
	}
}
