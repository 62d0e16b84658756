package report

import (
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/report/coastline"
)

// at is the value that the map shows at a place.
func at(v *view, values []float32, x, y float64) float64 {
	xs := interpolationPoints(v.cols, 1, func(int) float64 { return x })
	ys := interpolationPoints(v.rows, 1, func(int) float64 { return y })
	return v.value(values, &xs[0], &ys[0])
}

// Two asymmetric marks, at 90 E 45 N and 10 W 30 S, must be at their places: a mirrored map or a
// shift by 180° fails.
func TestMarksStandWhereTheyBelong(t *testing.T) {
	for _, size := range [][2]int{{64, 32}, {72, 36}, {720, 360}} {
		g := globe(size[0], size[1])
		v := newView(g)
		values := filled(g, func(lon, lat float64) float64 {
			return math.Exp(-distance2(lon, lat, 90, 45)/50) - math.Exp(-distance2(lon, lat, -10, -30)/50)
		})
		img := v.raster(values, nil, newScale(&Panel{Diverging: true, Maps: []Map{{Grid: g, Values: values}}}), 360)
		if img.Bounds().Dy() != 180 {
			t.Fatalf("%v: the picture is %v", size, img.Bounds())
		}
		top, bottom := firstBand+(len(img.Palette)-firstBand)/2-1, firstBand // pale colours follow
		if c := int(img.ColorIndexAt(180+90, 90-45)); c < top-3 {
			t.Errorf("%v: colour %d of %d at 90 E 45 N", size, c, top)
		}
		if c := int(img.ColorIndexAt(180-10, 90+30)); c > bottom+3 {
			t.Errorf("%v: colour %d at 10 W 30 S", size, c)
		}
	}
}

func distance2(lon, lat, lon0, lat0 float64) float64 {
	d := east(lon - lon0)
	return d*d + (lat-lat0)*(lat-lat0)
}

// A smooth field must be smooth over the date line, Greenwich and the poles.
func TestSmoothOverSeams(t *testing.T) {
	for _, g := range []*ensemble.Grid{globe(64, 32), withPoles(72, 37)} {
		// x, y and z of the unit sphere are smooth everywhere.
		f := func(lon, lat float64) float64 {
			p := sphere(lon, lat)
			return 3*p[0] + 2*p[1] + p[2]
		}
		values, v := filled(g, f), newView(g)
		if v.x0 != -180 || v.x1 != 180 {
			t.Fatalf("the map reaches from %g to %g", v.x0, v.x1)
		}
		for _, q := range []point{{-180, 10}, {-179.9, 10}, {179.9, 10}, {180, 10}, {-0.1, -20}, {0.1, -20}, {30, 89.5}, {-150, 89.5}, {100, -89.5}, {-80, -88}} {
			// Catmull-Rom is of third order: error ≤ h³ of the third derivative, some 0.01 here,
			// more at the poles, where the cut to the four points around it acts.
			if got, want := at(v, values, q.x, q.y), f(q.x, q.y); math.Abs(got-want) > 0.2 {
				t.Errorf("%d columns, at %v: %g, want %g", g.NX, q, got, want)
			}
		}
		if a, b := at(v, values, -180, 10), at(v, values, 180, 10); math.Abs(a-b) > 1e-6 {
			t.Errorf("the date line has two values, %g and %g", a, b)
		}
	}
}

// withPoles is a regular grid with rows on the poles.
func withPoles(nx, ny int) *ensemble.Grid {
	g := globe(nx, ny)
	for j := range ny {
		g.Lat[j] = 90 - float64(j)*180/float64(ny-1)
	}
	return g
}

// Grid points keep their values, and no value between them leaves their range.
func TestInterpolationKeepsPointsAndRange(t *testing.T) {
	g := globe(16, 8)
	values := filled(g, func(lon, lat float64) float64 { return math.Mod(lon*7919+lat*104729, 13) })
	v := newView(g)
	for k, want := range values {
		p := v.place(k)
		if got := at(v, values, p.x, p.y); math.Abs(got-float64(want)) > 1e-5 {
			t.Fatalf("point %d at %v: %g, want %g", k, p, got, want)
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range values {
		low, high = math.Min(low, float64(x)), math.Max(high, float64(x))
	}
	for x := -180.0; x <= 180; x += 1.7 {
		for y := -90.0; y <= 90; y += 1.3 {
			if q := at(v, values, x, y); q < low || q > high {
				t.Fatalf("%g at %g, %g is outside %g to %g", q, x, y, low, high)
			}
		}
	}
}

// A missing point hatches exactly the pixels that are nearer to it than to other points.
func TestMissingPoint(t *testing.T) {
	g := globe(36, 18)
	values := filled(g, wave)
	values[9*36+3] = float32(math.NaN()) // 30 E, 5 S
	v := newView(g)
	for _, c := range []struct {
		x, y    float64
		missing bool
	}{{30, -5, true}, {34, -5, true}, {26, -9, true}, {36, -5, false}, {30, 1, false}, {24, -5, false}} {
		if got := math.IsNaN(at(v, values, c.x, c.y)); got != c.missing {
			t.Errorf("at %g, %g missing is %v", c.x, c.y, got)
		}
	}
}

// A region is whole and zoomed to, also over Greenwich and the date line, however its
// longitudes are written.
func TestRegions(t *testing.T) {
	for _, c := range []struct {
		name       string
		west, east float64
		x0, x1     float64
	}{{"Europe over Greenwich", 350, 380, -10.5, 20.5}, {"Pacific over the date line", 160, 200, 159.5 - 0, 200.5}, {"America", 230, 300, -130.5, -59.5}, {"Australia", 110, 155, 109.5, 155.5}} {
		g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: 5, Lat: []float64{50, 49, 48, 47, 46}}
		for l := c.west; l <= c.east; l++ {
			g.Lon = append(g.Lon, math.Mod(l, 360))
		}
		g.NX = len(g.Lon)
		v := newView(g)
		shift := 360 * math.Round((v.x0-c.x0)/360)
		if math.Abs(v.x0-c.x0-shift) > 1e-9 || math.Abs(v.x1-c.x1-shift) > 1e-9 || math.Abs((v.x0+v.x1)/2) > 180 {
			t.Errorf("%s: %g to %g, want %g to %g", c.name, v.x0, v.x1, c.x0, c.x1)
		}
		if v.y0 != 45.5 || v.y1 != 50.5 {
			t.Errorf("%s: %g to %g N", c.name, v.y0, v.y1)
		}
		values := filled(g, func(lon, _ float64) float64 { return math.Mod(lon-c.west+360, 360) })
		if got := at(v, values, v.x0+0.5, 48); math.Abs(got) > 1e-5 {
			t.Errorf("%s: the west edge holds column %g", c.name, got)
		}
	}
}

// The place found from the points' coordinates must be that of the projection.
func TestInverseOfProjection(t *testing.T) {
	g, truth := stereographic(60, 50, 100e3)
	v := newView(g)
	for _, p := range []coastline.Point{{Lon: 0, Lat: 80}, {Lon: 10, Lat: 60}, {Lon: -20, Lat: 65}, {Lon: 179, Lat: 88}, {Lon: 25, Lat: 71}} {
		got, ok := v.projected.find(p.Lon, p.Lat)
		want := truth(p.Lon, p.Lat)
		// One linear step within a cell of 100 km: curvature leaves less than a tenth of it.
		if !ok || math.Hypot(got.x-want.x, got.y-want.y) > 10e3 {
			t.Errorf("%v: %v %v, want %v", p, got, ok, want)
		}
	}
	if _, ok := v.projected.find(0, -40); ok {
		t.Error("a place in the south is on a map of the north")
	}
	if c := newPicture(&Panel{Maps: []Map{{Grid: g, Values: filled(g, wave)}}}, 0, newScale(&Panel{})); len(c.coast()) < 10 || len(c.lines) < 5 || len(c.below) < 2 || len(c.left) < 1 {
		t.Errorf("%d coastlines, %d graticule lines, labels %v %v", len(c.coast()), len(c.lines), c.below, c.left)
	}
}

func TestAngles(t *testing.T) {
	for x, want := range map[float64]string{0: "0°", 30: "30°\u202fE", -60: "60°\u202fW", 180: "180°", -180: "180°", 190: "170°\u202fW", 359.5: "0.5°\u202fW"} {
		if got := longitude(x); got != want {
			t.Errorf("%g: %q, want %q", x, got, want)
		}
	}
	if latitude(-45) != "45°\u202fS" || latitude(0) != "0°" || latitude(2.5) != "2.5°\u202fN" {
		t.Error("latitudes")
	}
}

// The texts of two marks must not cover each other, and stay inside.
func TestTags(t *testing.T) {
	for dx := -80.0; dx <= 80; dx += 4 {
		for dy := -30.0; dy <= 30; dy += 3 {
			at := [2]point{{200, 100}, {200 + dx, 100 + dy}}
			width := [2]float64{60, 55}
			out := placeMarkTexts(at, width, 0, 400)
			x := func(k int) (a, b float64) {
				a = at[k].x + out[k].dx
				if out[k].left {
					a -= width[k]
				}
				return a, a + width[k]
			}
			a0, a1 := x(0)
			b0, b1 := x(1)
			if a0 < b1 && b0 < a1 && math.Abs(at[0].y+out[0].dy-at[1].y-out[1].dy) < tagHeight-1e-9 {
				t.Fatalf("marks %g, %g apart: texts cover each other: %+v", dx, dy, out)
			}
		}
	}
	if out := placeMarkTexts([2]point{{395, 10}, {5, 90}}, [2]float64{60, 60}, 0, 400); !out[0].left || out[1].left {
		t.Errorf("at the borders: %+v", out)
	}
}

// An outline over the date line is drawn on both sides of a global map, and clipped to its frame.
func TestOutline(t *testing.T) {
	g := globe(36, 18)
	c := newPicture(&Panel{Maps: []Map{{Grid: g, Values: filled(g, wave), Outline: []Place{{170, -30}, {200, -30}, {200, 0}, {170, 0}, {170, -30}}}}}, 0, newScale(&Panel{}))
	west, east := false, false
	for _, l := range c.outline() {
		for _, p := range l {
			west, east = west || p == point{-160, 0}, east || p == point{170, 0}
		}
	}
	if !west || !east {
		t.Errorf("outline %v", c.outline())
	}
	svg, err := c.svg(400, 2)
	if err != nil || !strings.Contains(svg, `class="outline"`) {
		t.Errorf("no outline, %v", err)
	}
}
