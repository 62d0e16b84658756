package ensemble

import (
	"fmt"
	"math"
	"testing"
)

// lonLat is a field whose values name their places.
func lonLat(g *Grid) []float64 {
	var out []float64
	for j := range g.NY {
		for i := range g.NX {
			out = append(out, 1000*g.LatAt(j, i)+math.Mod(g.LonAt(j, i)+360, 360))
		}
	}
	return out
}

func TestCrop(t *testing.T) {
	whole := &Grid{NX: 36, NY: 19}
	for i := range whole.NX {
		whole.Lon = append(whole.Lon, 10*float64(i))
	}
	for j := range whole.NY {
		whole.Lat = append(whole.Lat, 90-10*float64(j))
	}
	for _, c := range []struct {
		area                    string
		north, south, west, end float64
		nx, ny                  int
		firstLon                float64 // of the input's columns from 0
	}{
		{"70/20/30/60", 70, 30, 20, 60, 5, 5, 20},
		{"71/-21/29/41", 70, 30, 340, 400, 7, 5, 340}, // across Greenwich
		{"10/170/-10/-170", 10, -10, 170, 190, 3, 3, 170},
		{"10/170/-10/190", 10, -10, 170, 190, 3, 3, 170},
		{"90/-180/-90/180", 90, -90, 0, 350, 36, 19, 0}, // the whole globe
		{"90/0/-90/360", 90, -90, 0, 350, 36, 19, 0},
		{"90/-180/-90/170", 90, -90, 0, 350, 36, 19, 0},
		{"40/-180/20/180", 40, 20, 0, 350, 36, 3, 0},
		{"40/50/40/50", 40, 40, 50, 50, 1, 1, 50},
		{"0/0/0/0", 0, 0, 0, 0, 1, 1, 0},
		{"90/10/80/0", 90, 80, 0, 350, 36, 2, 0}, // all but what lies between 0 and 10 E
	} {
		a, err := ParseArea(c.area)
		if err != nil {
			t.Fatal(err)
		}
		g, places, err := whole.Crop(a)
		if err != nil {
			t.Fatalf("%s: %v", c.area, err)
		}
		if g.NX != c.nx || g.NY != c.ny || g.Lat[0] != c.north || g.Lat[g.NY-1] != c.south || math.Abs(g.Lon[0]-c.west) > 1e-9 || math.Abs(g.Lon[g.NX-1]-c.end) > 1e-9 {
			t.Errorf("%s: %s", c.area, g)
			continue
		}
		if math.Abs(g.Source.FirstLon-c.firstLon) > 1e-9 || g.Parent() != whole {
			t.Errorf("%s: starts at %g", c.area, g.Source.FirstLon)
		}
		if places == nil {
			if g != whole {
				t.Errorf("%s: all of the grid is another grid", c.area)
			}
			continue
		}
		if got, want := Take(lonLat(whole), places), lonLat(g); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: points %v, want %v", c.area, got, want)
		}
	}
	if _, _, err := whole.Crop(Area{45, 1, 41, 9}); err == nil {
		t.Error("an area between the points was accepted")
	}
	if _, _, err := (&Grid{Kind: Points}).Crop(Area{1, 0, 0, 1}); err == nil {
		t.Error("places were cut")
	}
	for _, bad := range []string{"", "1/2/3", "30/0/70/20", "95/0/0/1", "1/2/x/4", "10/0/0/400"} {
		if _, err := ParseArea(bad); err == nil {
			t.Errorf("area %q was accepted", bad)
		}
	}
}
