package ensemble

import (
	"math"
	"slices"
	"testing"
	"time"
)

// The noise of a member is standard normal, differs between fields and streams, and is the same for a part of the
// field; missing values stay missing.
func TestNoiseOfMembers(t *testing.T) {
	const n = 40000
	x := make([]float32, n)
	for p := range x { // as smooth as fields are
		x[p] = 280 + 20*float32(math.Sin(float64(p)/300)) + float32(p)*1e-4
	}
	x[7] = float32(math.NaN())
	y := slices.Clone(x)
	for p := range y {
		y[p] += 0.01
	}
	a, b, c, d := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	noise(a, x, 3, 0)
	noise(b, x, 4, 0)
	noise(c, y, 3, 0)
	if a[7] == a[7] {
		t.Errorf("noise %g where the field is missing", a[7])
	}
	a[7], b[7], c[7] = 0, 0, 0
	mean := func(f func(p int) float64) (sum float64) {
		for p := range a[:n-1] {
			sum += f(p)
		}
		return sum / (n - 1)
	}
	of := func(x []float32) func(int) float64 { return func(p int) float64 { return float64(x[p]) } }
	for name, m := range map[string]struct{ got, want float64 }{
		"mean":                    {mean(of(a)), 0},
		"square":                  {mean(func(p int) float64 { return float64(a[p]) * float64(a[p]) }), 1},
		"fourth power over 3":     {mean(func(p int) float64 { return math.Pow(float64(a[p]), 4) }) / 3, 1},
		"product of neighbours":   {mean(func(p int) float64 { return float64(a[p]) * float64(a[p+1]) }), 0},
		"product of two streams":  {mean(func(p int) float64 { return float64(a[p]) * float64(b[p]) }), 0},
		"product of two fields":   {mean(func(p int) float64 { return float64(a[p]) * float64(c[p]) }), 0},
		"product with the field":  {mean(func(p int) float64 { return float64(a[p]) * (float64(y[p]) - 280) / 20 }), 0},
		"share beyond 1.96 sigma": {mean(func(p int) float64 { return math.Trunc(math.Min(math.Abs(float64(a[p]))/1.959964, 1)) }) * 20, 1},
	} {
		if math.Abs(m.got-m.want) > 0.04 { // some 5 standard errors
			t.Errorf("%s: %.4f, want %g", name, m.got, m.want)
		}
	}
	noise(d[100:200], x[100:200], 3, 0)
	if !slices.Equal(d[100:200], a[100:200]) {
		t.Error("a part of the field has other noise")
	}
}

// Draw 0 is the noise of networks that were trained before there were draws; other draws are standard normal and
// independent of it, of each other and of draws of another stream.
func TestDrawsOfNoise(t *testing.T) {
	const n, stream = 40000, 3
	x := make([]float32, n)
	for p := range x {
		x[p] = 280 + 20*float32(math.Sin(float64(p)/300)) + float32(p)*1e-4
	}
	draws := make([][]float32, 4)
	for d := range draws {
		draws[d] = make([]float32, n)
		noise(draws[d], x, stream, d)
	}
	for p, v := range x {
		z := uint64(math.Float32bits(v)) | (stream+1)<<32
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		radius, angle := (float64(z>>32)+0.5)/(1<<32), 2*math.Pi*float64(z&(1<<32-1))/(1<<32)
		if want := float32(math.Sqrt(-2*math.Log(radius)) * math.Cos(angle)); draws[0][p] != want {
			t.Fatalf("draw 0 at point %d is %g, in older programs %g", p, draws[0][p], want)
		}
	}
	other := make([]float32, n)
	noise(other, x, stream+1, 1)
	product := func(a, b []float32) (mean float64) {
		for p := range a {
			mean += float64(a[p]) * float64(b[p]) / n
		}
		return mean
	}
	for d, a := range draws {
		if s := product(a, a); math.Abs(s-1) > 0.04 { // some 5 standard errors
			t.Errorf("draw %d has a mean square of %g", d, s)
		}
		others := slices.Clone(draws[:d])
		if d > 0 {
			others = append(others, other)
		}
		for _, b := range others {
			if c := product(a, b); math.Abs(c) > 0.025 {
				t.Errorf("draw %d has a correlation of %g with another", d, c)
			}
		}
	}
}

// Redrawn noise has the bits of an input built with that draw, and the other channels stay. A rank with a part of the
// levels has the noise that the whole has there.
func TestRedraw(t *testing.T) {
	grid, members := testGrid(4, 6, true), []int{0, 1, 2}
	whole := &Features{Axes: testAxes, Aggregates: []Aggregate{UsedSpread}, MemberInputs: []MemberChannel{StandardisedMember, MemberNoise}, DDOF: 1}
	fc := testForecast(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), testAxes, len(members), grid)
	if err := whole.Fit([]*Forecast{fc}, members, GlobalStandard, LASOptions{}); err != nil {
		t.Fatal(err)
	}
	build := func(f *Features, fc *Forecast, draw int) MemberInput {
		fields := len(members) * f.Axes.Fields() * grid.Size()
		in := MemberInput{Channels: make([]float32, len(f.MemberInputs)*fields), Noise: NoiseInput{Draw: draw, Fields: make([]float32, fields)}}
		if err := f.BuildMembers(in, fc, members); err != nil {
			t.Fatal(err)
		}
		return in
	}
	in, want := build(whole, fc, 0), build(whole, fc, 7)
	if slices.Equal(in.Channels, want.Channels) {
		t.Fatal("two draws have the same noise")
	}
	in.Noise.Draw = 7
	whole.Redraw(in, len(members))
	if !slices.Equal(in.Channels, want.Channels) {
		t.Error("redrawn noise is not that of the draw")
	}
	lower := *whole
	lower.Axes.Levels = testAxes.Levels[1:]
	lower.Fields, lower.Spreads, lower.NoiseStreams = nil, nil, nil
	at := NewForecast(fc.Init, lower.Axes, fc.Members, grid)
	for i := 1; i < testAxes.Fields(); i += len(testAxes.Levels) {
		lower.Fields, lower.Spreads, lower.NoiseStreams = append(lower.Fields, whole.Fields[i]), append(lower.Spreads, whole.Spreads[i]), append(lower.NoiseStreams, i)
	}
	for lead := range testAxes.Leads {
		for m := range members {
			for v := range testAxes.Variables {
				copy(at.Field(lead, m, v, 0), fc.Field(lead, m, v, 1))
			}
		}
	}
	part, n := build(&lower, at, 7), grid.Size()
	for c := range len(part.Channels) / n {
		if !slices.Equal(part.Channels[c*n:(c+1)*n], want.Channels[(2*c+1)*n:(2*c+2)*n]) {
			t.Fatalf("channel %d of a part of the levels is not that of the whole", c)
		}
	}
}
