package ensemble

import (
	"math"
	"testing"
	"time"
)

func testForecast(init time.Time, axes Axes, members int, grid *Grid) *Forecast {
	ids := make([]Member, members)
	for m := range ids {
		ids[m] = Member(m)
	}
	f := NewForecast(InitAt(init), axes, ids, grid)
	for t := range axes.Leads {
		for m := range ids {
			for v := range axes.Variables {
				for l := range axes.Levels {
					x := f.Field(t, m, v, l)
					for p := range x {
						x[p] = float32(100*v+10*l) + float32(t+1)*float32(math.Sin(float64(p*(m+1)+7*v+3*l+init.YearDay())))
					}
				}
			}
		}
	}
	return f
}

var testAxes = Axes{
	Variables: []string{"t", "q", "w", "u", "v", "z", "d"},
	Levels:    []Level{PressureLevel(500), PressureLevel(850)},
	Leads:     []Lead{0, Lead(24 * time.Hour), Lead(48 * time.Hour)},
}

func TestPublishedChannelOrder(t *testing.T) {
	f := &Features{Axes: testAxes, Aggregates: []Aggregate{UsedSpread, FirstMember}}
	if f.Channels() != 42 {
		t.Fatalf("%d channels, want 42", f.Channels())
	}
	// c = 14*lead + 7*aggregate + field; 28 is the temperature spread at +48 h,
	// 33 the geopotential spread there.
	for c, want := range map[int]string{0: "spread(t) at 0h", 7: "first(t) at 0h", 13: "first(d) at 0h", 14: "spread(t) at 24h", 28: "spread(t) at 48h", 33: "spread(z) at 48h", 41: "first(d) at 48h"} {
		if got := f.ChannelName(c); got != want {
			t.Errorf("channel %d is %q, want %q", c, got, want)
		}
	}
	if got := f.Channel(testAxes.Leads[2], UsedSpread, "z"); got != 33 {
		t.Errorf("z spread at 48 h found at %d", got)
	}
}

func TestFeaturesAreStandardised(t *testing.T) {
	grid := testGrid(8, 12, true)
	var train []*Forecast
	for k := range 6 {
		train = append(train, testForecast(time.Date(2000, 1, 1+20*k, 0, 0, 0, 0, time.UTC), testAxes, 5, grid))
	}
	used := []int{0, 1, 2, 3, 4}
	f := &Features{Axes: testAxes, Aggregates: []Aggregate{UsedSpread, FirstMember, MeanOffset}, Location: true, Season: true, DDOF: 1}
	if err := f.Fit(train, used, GlobalStandard, LASOptions{}); err != nil {
		t.Fatal(err)
	}
	n := grid.Size() * 2
	sum, sq, area := make([]float64, f.Channels()), make([]float64, f.Channels()), 0.0
	w := grid.Weights()
	dst := make([]float32, f.Channels()*n)
	for _, fc := range train {
		if err := f.Build(dst, fc, used); err != nil {
			t.Fatal(err)
		}
		for c := range f.Channels() {
			for p := range n {
				x := float64(dst[c*n+p])
				sum[c] += w[p%grid.Size()] * x
				sq[c] += w[p%grid.Size()] * x * x
			}
		}
		for p := range n {
			area += w[p%grid.Size()]
		}
	}
	for c := range 3 * 3 * 7 {
		m, s := sum[c]/area, sq[c]/area
		switch f.Aggregates[c/7%3] {
		case UsedSpread:
			if math.Abs(s-1) > 1e-5 {
				t.Errorf("%s: mean square %g, want 1", f.ChannelName(c), s)
			}
		case FirstMember:
			if math.Abs(m) > 1e-5 || math.Abs(s-1) > 1e-4 {
				t.Errorf("%s: mean %g, mean square %g", f.ChannelName(c), m, s)
			}
		}
	}
	// The season channels of the last forecast, 101 days into the year.
	want := math.Sin(SeasonAngle(train[5].Init.Time))
	if got := float64(dst[(f.Channels()-2)*n]); math.Abs(got-want) > 1e-6 {
		t.Errorf("season channel %g, want %g", got, want)
	}
}

// Spread does not depend on the order of members; the first trajectory is the
// only channel that does.
func TestFeaturesUnderMemberPermutation(t *testing.T) {
	grid := testGrid(8, 9, true)
	fc := testForecast(time.Date(2001, 5, 4, 0, 0, 0, 0, time.UTC), testAxes, 5, grid)
	f := &Features{Axes: testAxes, Aggregates: []Aggregate{UsedSpread, FirstMember}, DDOF: 0}
	if err := f.Fit([]*Forecast{fc}, []int{0, 1, 2, 3, 4}, LAS, LASOptions{Window: 3, Smooth: 1}); err != nil {
		t.Fatal(err)
	}
	n := grid.Size() * 2
	a, b := make([]float32, f.Channels()*n), make([]float32, f.Channels()*n)
	if err := f.Build(a, fc, []int{0, 1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if err := f.Build(b, fc, []int{0, 4, 2, 1, 3}); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("channel %s changes with the order of members", f.ChannelName(i/n))
		}
	}
}
