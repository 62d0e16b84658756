package scoring

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Maps of probabilities show what is published: of rain the distribution with its mass at zero, where a normal one with the
// same mean and spread is visibly wrong; of members their fraction; calibrated probabilities where the model has them. The
// maps of a prediction and of the test agree.
func TestMapProbability(t *testing.T) {
	g := cells(8, 4)
	n := g.Size()
	normal := func(mean, sigma, x float64) float64 { return 0.5 * math.Erfc((x-mean)/sigma/math.Sqrt2) }
	for _, c := range []struct {
		name, variable string
		family         *dist.Family
		location       func(p int) float64 // the scale is 2
		members        bool
		calibrated     bool
		threshold      float64
		source         string
	}{
		{"normal", "2t", dist.Normal, func(p int) float64 { return 270 + float64(p) }, false, false, 288.15, "published distribution, normal"},
		{"rain", "tp", dist.Normal, func(p int) float64 { return -6 + 0.4*float64(p) }, false, false, 1, "published distribution, normal censored at 0"},
		{"drizzle", "tp", dist.Normal, func(p int) float64 { return -6 + 0.15*float64(p) }, false, false, 0.1, "published distribution, normal censored at 0"},
		{"members", "tp", nil, func(p int) float64 { return 0.3 * float64(p) }, true, false, 1, "fraction of the 4 post-processed members"},
		{"calibrated", "2t", dist.Normal, func(p int) float64 { return 270 + float64(p) }, false, true, 280, "published distribution, normal, calibrated"},
	} {
		levels := []ensemble.Level{ensemble.SingleLevel}
		target := task.Target{Variable: c.variable}
		m := &model.Model{Family: c.family, Task: task.Task{Features: ensemble.Features{Axes: ensemble.Axes{Levels: levels}, DDOF: 1}, Targets: []task.Target{target}, TargetWeights: []float64{1}, UsedMembers: []ensemble.Member{0, 1}}}
		m.Grid = g
		if c.calibrated {
			for _, x := range []float64{280, 400} { // that of 400 K is outside the field
				m.Calibrations = append(m.Calibrations, model.Calibration{Variable: c.variable, Level: levels[0].String(), Event: ensemble.Event{Relation: ensemble.Above, Lower: x},
					Mapping: calibration.Map{X: []float64{0, 1}, Y: []float64{0.25, 0.25}}})
			}
		}
		out := &model.Forecast{Mean: make([]float32, n), Sigma: make([]float32, n)}
		want := make([]float64, n)
		par := [][]float32{make([]float32, n), make([]float32, n)}
		censored := c.family != nil && m.VariableFamily(c.variable) != c.family
		if c.members {
			out.Members = make([]float32, 4*n)
		}
		wrong := 0.0 // largest difference of a normal distribution with this mean and spread
		for p := range n {
			mean, std := c.location(p), 2.0
			par[0][p], par[1][p] = float32(mean), float32(std)
			want[p] = normal(mean, std, c.threshold)
			if censored {
				mean, std = m.VariableFamily(c.variable).Moments([]float64{mean, std})
			}
			if c.calibrated {
				want[p] = 0.25
			}
			if c.members { // of 4 members two are dry
				want[p] = 0
				for k := range 4 {
					if v := max(0, float32(k-1)) * float32(mean); v > 0 {
						out.Members[k*n+p] = v
						if float64(v) > c.threshold {
							want[p] += 0.25
						}
					}
				}
			}
			out.Mean[p], out.Sigma[p] = float32(mean), float32(std)
			wrong = max(wrong, math.Abs(normal(mean, std, c.threshold)-want[p]))
		}
		if censored {
			out.Parameters = par
		}
		single := &Case{Mean: out.Mean, Sigma: out.Sigma, Parameters: out.Parameters, Used: []int{0, 1}, Obs: out.Mean, Members: [][]float32{out.Mean, out.Mean}}
		if c.members {
			single.Calibrated = out.TargetMembers(0, 1, n)
		}
		for _, e := range []*MapExample{PredictionExample(m, Prediction{}, []task.Statistics{{}}, out), newMapExample(m, &ensemble.Forecast{}, []*Case{single}, 1)} {
			i := slices.IndexFunc(e.Fields, func(f MapField) bool { return f.Kind == ShowProbability })
			if i < 0 {
				t.Errorf("%s: no probability", c.name)
				continue
			}
			f := &e.Fields[i]
			if math.Abs(f.Threshold-c.threshold) > 1e-9 || f.Source != c.source {
				t.Errorf("%s: above %g from %q, want %g from %q", c.name, f.Threshold, f.Source, c.threshold, c.source)
			}
			for p, v := range f.Values {
				if math.Abs(float64(v)-want[p]) > 1e-5 {
					t.Errorf("%s: point %d has %g, want %g", c.name, p, v, want[p])
				}
			}
		}
		if c.name != "normal" && wrong < 0.05 {
			t.Errorf("%s: a normal distribution differs by %g only: the case shows nothing", c.name, wrong)
		}
		if c.calibrated { // the fallback forecast is not
			e := PredictionExample(m, Prediction{Fallback: true}, []task.Statistics{{}}, out)
			i := slices.IndexFunc(e.Fields, func(f MapField) bool { return f.Kind == ShowProbability })
			if f := &e.Fields[i]; strings.Contains(f.Source, "calibrated") || f.Values[0] == 0.25 {
				t.Errorf("fallback: %q, %g", f.Source, f.Values[0])
			}
		}
	}
}

// Thresholds are round in the unit of forecasters and separate the field.
func TestEventThreshold(t *testing.T) {
	for _, c := range []struct {
		variable  string
		field     []float32
		want      float64
		separates bool
	}{
		{"gh", []float32{5000, 5500, 5800}, 5520, true},
		{"gh", []float32{5521, 5526, 5531}, 5530, true}, // no multiple of 80, 40 and 20 m lies within
		{"gh", []float32{5521, 5522, 5523}, 0, false},
		{"z", []float32{49000, 54000, 57000}, 98.0665 * 552, true},
		{"msl", []float32{98000, 101240, 103000}, 101000, true},
		{"2t", []float32{250, 282, 300}, 283.15, true},
		{"tp", []float32{0, 0, 0, 12}, 1, true},
		{"tp", []float32{0, 0, 0, 0.4}, 0.1, true},
		{"tp", []float32{0, 0, 0, 0.04}, 0, false},
		{"tp", []float32{2, 3, 8}, 5, true},
		{"10si", []float32{1, 8, 30}, 10, true},
		{"q", []float32{0.001, 0.008, 0.02}, 0.008, true},
		{"t", []float32{280, 280}, 0, false},
		{"t", []float32{float32(math.NaN())}, 0, false},
		{"t", nil, 0, false},
	} {
		got, ok := EventThreshold(c.variable, c.field)
		if ok != c.separates || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s of %v: %g, %t; want %g, %t", c.variable, c.field, got, ok, c.want, c.separates)
		}
	}
}
