package model

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Precipitation with a normal distribution is published as censored at 0: its mean is that of the censored one and never
// negative, and the parameters remain. Other targets of the model keep mean and spread.
func TestCensor(t *testing.T) {
	m := &Model{Family: dist.Normal, Task: task.Task{Targets: []task.Target{{Variable: "tp"}, {Variable: "2t"}}}}
	nan := float32(math.NaN())
	out := &Forecast{Mean: []float32{-1, nan, 280, -1}, Sigma: []float32{1, nan, 2, 1}}
	m.censor(out, 2)
	mean, std := dist.CensoredNormal.Moments([]float64{-1, 1})
	if float64(out.Mean[0]-float32(mean)) != 0 || out.Sigma[0] != float32(std) || mean < 0.08 || mean > 0.09 {
		t.Errorf("mean %g, spread %g, want %g and %g", out.Mean[0], out.Sigma[0], mean, std)
	}
	if out.Mean[1] == out.Mean[1] || out.Mean[2] != 280 || out.Sigma[2] != 2 || out.Mean[3] != -1 {
		t.Errorf("means %v, spreads %v", out.Mean, out.Sigma)
	}
	if p := out.Parameters; len(p) != 2 || p[0][0] != -1 || p[1][0] != 1 {
		t.Errorf("parameters %v", p)
	}
	if !m.IsNonNormal() {
		t.Error("the model counts as normal")
	}
	only := &Model{Family: dist.Normal, Task: task.Task{Targets: []task.Target{{Variable: "2t"}}}}
	if only.censor(out, 1); only.IsNonNormal() {
		t.Error("a model of 2t counts as not normal")
	}
}
