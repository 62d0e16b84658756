package edr

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestTimes: instants, intervals and open intervals, with any zone.
func TestTimes(t *testing.T) {
	at := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]bool{
		"2026-01-03T00:00:00Z": true, "2026-01-03T00:00Z": true, "2026-01-03T01:00:00+01:00": true, "2026-01-03T00:00:01Z": false,
		"2026-01-03T00:00:00Z/2026-01-04T00:00:00Z": true, "2026-01-02T00:00:00Z/2026-01-03T00:00:00Z": true, "2026-01-04T00:00:00Z/2026-01-05T00:00:00Z": false,
		"../2026-01-03T00:00:00Z": true, "2026-01-03T00:00:00Z/..": true, "../2026-01-02T23:59:59Z": false, "/2026-01-03T00:00:00Z": true, "../..": true,
	} {
		if f, err := parseTimes(text); err != nil || f(at) != want {
			t.Errorf("%s includes %s: %v, want %v", text, at, err, want)
		}
	}
	for _, text := range []string{"2026", "now", "2026-01-03", "2026-01-03T00:00:00Z/2026-01-04T00:00:00Z/PT6H", "2026-13-03T00:00:00Z"} {
		if _, err := parseTimes(text); err == nil {
			t.Errorf("%q is a time", text)
		}
	}
}

// TestLevels: a level, lists, intervals in either order, and sequences.
func TestLevels(t *testing.T) {
	all := []float64{1000, 850, 700, 500, 2}
	for text, want := range map[string][]float64{"850": {850}, "850,500": {850, 500}, "500/850": {850, 700, 500}, "850/500": {850, 700, 500}, "R3/500/100": {700, 500}, "R2/850/-150": {850, 700}, "2": {2}, "1": nil, "R1/850/0": nil} {
		f, err := parseLevels(text)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []float64
		for _, z := range all {
			if f(z) {
				got = append(got, z)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "850hPa", "1/2/3", "R/1/2", "R1.5/1/2", "R0/1/2", "NaN", "850,", "Inf"} {
		if _, err := parseLevels(text); err == nil {
			t.Errorf("%q is a level", text)
		}
	}
}

// TestContains compares polygons with a half-plane test of random triangles, and boundaries, holes and parts.
func TestContains(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	next := func() point { return point{random.Float64()*40 - 20, random.Float64()*40 - 20} }
	side := func(a, b, p point) float64 { return (b.lon-a.lon)*(p.lat-a.lat) - (b.lat-a.lat)*(p.lon-a.lon) }
	inside := 0
	for range 20_000 {
		a, b, c, p := next(), next(), next(), next()
		s := []float64{side(a, b, p), side(b, c, p), side(c, a, p)}
		want := slices.Max(s) < 0 || slices.Min(s) > 0
		if want {
			inside++
		}
		if got := (polygons{{a, b, c, a}}).contains(p); got != want && min(s[0]*s[0], s[1]*s[1], s[2]*s[2]) > 1e-6 {
			t.Fatalf("%v in %v %v %v: %v", p, a, b, c, got)
		}
	}
	if inside < 1000 {
		t.Fatalf("only %d points were inside: the test has no effect", inside)
	}
	p, err := parsePolygons(" multipolygon ( ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2)), ((20 0, 30 0, 30 10, 20 0)) ) ")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[point]bool{{5, 5}: true, {3, 3}: false, {2, 3}: true, {0, 0}: true, {10, 5}: true, {10.1, 5}: false, {15, 5}: false, {28, 2}: true, {25, 5}: true, {22, 8}: false} {
		if p.contains(at) != want {
			t.Errorf("%v is inside: %v", at, !want)
		}
	}
}

// FuzzWKT: any text is geometry within its bounds, or an error.
func FuzzWKT(f *testing.F) {
	for _, text := range []string{"POINT(8.55 47.37)", "POINT (1e1 -0)", "POLYGON((0 0,1 0,1 1,0 0))", "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((2 2,3 2,3 3,2 2)))", "POINT(1 2", "POLYGON()", "MULTI"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parsePoint(text); err == nil && !(p.lon >= -180 && p.lon <= 360 && p.lat >= -90 && p.lat <= 90) {
			t.Errorf("%q: %v", text, p)
		}
		if p, err := parsePolygons(text); err == nil {
			west, south, east, north := p.bounds()
			if !(west >= -180 && east <= 360 && south >= -90 && north <= 90 && len(p) > 0) {
				t.Errorf("%q: %v", text, p)
			}
			p.contains(point{1, 1})
		}
	})
}
