package network

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// TestLinks: every family of the head has a link, or only location and scale as parameters.
func TestLinks(t *testing.T) {
	known := map[string]bool{}
	for _, r := range dist.Table {
		f := r.AnyFamily()
		_, own := links[r.ID]
		known[r.ID] = true
		if byMoments := f.StandardMoments.Std > 0 && len(f.Parameters) == 2; r.Head && own == byMoments {
			t.Errorf("%s%v: a link of its own: %v, a location and a scale: %v", r.ID, f.Parameters, own, byMoments)
		}
	}
	for id := range links {
		if !known[id] {
			t.Errorf("a link of no family: %s", id)
		}
	}
}

// TestSpreadLosses: the configuration accepts exactly the losses of spreads that networks support.
func TestSpreadLosses(t *testing.T) {
	if have, want := slices.Sorted(maps.Keys(spreadLossFuncs)), slices.Sorted(slices.Values(config.SpreadLosses)); !slices.Equal(have, want) {
		t.Errorf("the network has %q, the schema %q", have, want)
	}
}

// compileLink compiles the parameters of a link as outputs "0", "1", ….
func compileLink(t *testing.T, b *graph.Builder, par []graph.Value) *engine.Plan {
	t.Helper()
	for i, v := range par {
		b.Output(strconv.Itoa(i), v)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := engine.Compile(g, engine.Options{Mode: engine.Infer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestLocationScaleHasTheMoments: families with location and scale have the moments of the network
// before censoring at 0, also where the mean differs from the location.
func TestLocationScaleHasTheMoments(t *testing.T) {
	skew := *dist.Normal // its unit is all that the link reads
	skew.ID, skew.StandardMoments = "skew", dist.Moments{Mean: 0.6, Std: 1.7}
	families := []*dist.Family{&skew}
	for _, r := range dist.Table {
		if f := r.AnyFamily(); r.Head && f.StandardMoments != (dist.Moments{}) {
			families = append(families, f)
		}
	}
	for _, f := range families {
		b := graph.New(1)
		shape := graph.Shape{1, 1, 1, 1, 2}
		par := linkOf(f).parameters(b, f, distributionOutputs{shift: b.Input("shift", shape), sigma: b.Input("sigma", shape)})
		p := compileLink(t, b, par)
		shift, sigma := []float32{0.3, -2}, []float32{0.8, 1.5}
		copy(p.Input("shift"), shift)
		copy(p.Input("sigma"), sigma)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for i := range shift {
			location, scale := float64(p.Output("0")[i]), float64(p.Output("1")[i])
			if mean, std := location+f.StandardMoments.Mean*scale, f.StandardMoments.Std*scale; math.Abs(mean-float64(shift[i])) > 1e-6 || math.Abs(std-float64(sigma[i])) > 1e-6 {
				t.Errorf("%s: %g ± %g, want %g ± %g", f.ID, mean, std, shift[i], sigma[i])
			}
		}
	}
}

// TestLogNormalHasTheMoments: the log-normal family has the mean and spread of the network, also where
// the spread is a small part of the mean.
func TestLogNormalHasTheMoments(t *testing.T) {
	sigma := []float32{3, 0.3, 0.01, 1e-4, 1e-6}
	shape := graph.Shape{1, 1, 1, 1, len(sigma)}
	b := graph.New(1)
	par := logNormalLink(b, dist.LogNormal, distributionOutputs{shift: b.Input("shift", shape), centre: b.Input("centre", shape), sigma: b.Input("sigma", shape)})
	p := compileLink(t, b, par)
	for i := range sigma {
		p.Input("centre")[i] = 20
	}
	copy(p.Input("sigma"), sigma)
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	for i, s := range sigma {
		mu, v := float64(p.Output("0")[i]), float64(p.Output("1")[i])
		m := math.Exp(mu + v*v/2) // 20, but for the soft floor above 0
		if _, want := dist.LogNormalFromMoments(m, float64(s)); math.Abs(m-20) > 0.02 || math.Abs(v-want) > 1e-5*want {
			t.Errorf("spread %g: mean %g, sigma %g, want 20, %g", s, m, v, want)
		}
	}
}
