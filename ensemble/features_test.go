package ensemble

import (
	"errors"
	"math"
	"slices"
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

// Where no member is special, no bit of fitted normalisers and of channels depends on the numbers of the members, also of
// the channels of each member. The mean is standardised by the moments of all members, whatever the divisor of the spread.
func TestExchangeableFeatures(t *testing.T) {
	grid := testGrid(8, 9, true)
	used := []int{0, 1, 2, 3, 4}
	for _, kind := range []Standardisation{GlobalStandard, LAS} {
		for ddof := range 2 {
			fit := func(order []int, exchangeable bool) *Features {
				f := &Features{Axes: testAxes, Aggregates: []Aggregate{UsedMean, UsedSpread}, DDOF: ddof, Exchangeable: exchangeable, MemberInputs: []MemberChannel{StandardisedMember, MemberOffset}}
				var train []*Forecast
				for k := range 6 {
					fc := testForecast(time.Date(2000, 1, 1+20*k, 0, 0, 0, 0, time.UTC), testAxes, 5, grid)
					train = append(train, renumbered(fc, order))
				}
				if err := f.Fit(train, used, kind, LASOptions{Window: 3, Smooth: 1}); err != nil {
					t.Fatal(err)
				}
				return f
			}
			plain, other := fit(used, true), fit([]int{3, 0, 4, 2, 1}, true)
			for i, n := range plain.Fields {
				if !slices.Equal(n.Mean, other.Fields[i].Mean) || !slices.Equal(n.Scale, other.Fields[i].Scale) || plain.Spreads[i] != other.Spreads[i] {
					t.Fatalf("%s, divisor M - %d: field %d is fitted to other values with other numbers", kind, ddof, i)
				}
			}
			if a, b := fit(used, false), fit([]int{3, 0, 4, 2, 1}, false); slices.Equal(a.Fields[0].Mean, b.Fields[0].Mean) {
				t.Error("without Exchangeable the first member is not special")
			}
			fc := testForecast(time.Date(2001, 5, 4, 0, 0, 0, 0, time.UTC), testAxes, 5, grid)
			n := grid.Size() * 2
			a, b := make([]float32, plain.Channels()*n), make([]float32, plain.Channels()*n)
			size := plain.MemberChannels() * n
			x, y := make([]float32, 5*size), make([]float32, 5*size)
			order := []int{2, 4, 1, 0, 3}
			if err := errors.Join(plain.Build(a, fc, used), plain.Build(b, fc, order), plain.BuildMembers(MemberInput{Channels: x}, fc, used), plain.BuildMembers(MemberInput{Channels: y}, fc, order)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a, b) {
				t.Error("statistics change with the order of members")
			}
			for i, m := range order {
				if !slices.Equal(y[i*size:(i+1)*size], x[m*size:(m+1)*size]) {
					t.Errorf("channels of member %d change with the order of members", m)
				}
			}
			if kind == LAS {
				continue
			}
			// Of the first field: mean and variance over dates, members and points.
			var weight, sum, sq float64
			w := grid.Weights()
			for k := range 6 {
				fc := testForecast(time.Date(2000, 1, 1+20*k, 0, 0, 0, 0, time.UTC), testAxes, 5, grid)
				for m := range used {
					for p, v := range fc.Field(0, m, 0, 0) {
						weight, sum, sq = weight+w[p], sum+w[p]*float64(v), sq+w[p]*float64(v)*float64(v)
					}
				}
			}
			mean := sum / weight
			std := math.Sqrt(sq/weight - mean*mean)
			if got := plain.Fields[0]; math.Abs(got.Mean[0]-mean) > 1e-6 || math.Abs(got.Scale[0]-std) > 1e-6 {
				t.Errorf("divisor M - %d: mean %g and scale %g of all members, want %g and %g", ddof, got.Mean[0], got.Scale[0], mean, std)
			}
			average := 0.0
			for m := range used {
				average += float64(fc.Field(0, m, 0, 0)[3]) / 5
			}
			c := plain.Channel(testAxes.Leads[0], UsedMean, "t")
			if got, want := float64(a[c*n+3]), (average-mean)/std; math.Abs(got-want) > 1e-5 {
				t.Errorf("channel %s is %g, want %g", plain.ChannelName(c), got, want)
			}
		}
	}
}

// renumbered returns a forecast whose member m has the fields of member order[m].
func renumbered(fc *Forecast, order []int) *Forecast {
	out := NewForecast(fc.Init, fc.Axes, fc.Members, fc.Grid)
	for t := range fc.Axes.Leads {
		for m, from := range order {
			for v := range fc.Axes.Variables {
				for l := range fc.Axes.Levels {
					copy(out.Field(t, m, v, l), fc.Field(t, from, v, l))
				}
			}
		}
	}
	return out
}

// Uses of the control read as sentences.
func TestDescribeControl(t *testing.T) {
	for use, want := range map[string]string{IncludeControl: "control included", ExcludeControl: "control excluded", NoControl: "no control"} {
		if got := DescribeControl(use); got != want {
			t.Errorf("%s: %q, want %q", use, got, want)
		}
	}
}
