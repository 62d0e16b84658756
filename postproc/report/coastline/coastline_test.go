package coastline

import (
	"math"
	"testing"
)

// A point on each of several coasts is near a line, and no segment crosses a map.
func TestLinesLieOnCoasts(t *testing.T) {
	near := func(lon, lat float64) float64 {
		best := math.Inf(1)
		for _, l := range Lines() {
			for _, p := range l {
				best = math.Min(best, math.Hypot((p.Lon-lon)*math.Cos(lat*math.Pi/180), p.Lat-lat))
			}
		}
		return best
	}
	for _, c := range []struct {
		name     string
		lon, lat float64
	}{{"Land's End", -5.7, 50.1}, {"Cape Horn", -67.3, -55.9}, {"Cape of Good Hope", 18.5, -34.3}, {"Lisbon", -9.4, 38.7}, {"Hokkaido", 141.9, 45.5}} {
		if d := near(c.lon, c.lat); d > 1 {
			t.Errorf("%s is %.1f degrees from the nearest coast point", c.name, d)
		}
	}
	points := 0
	for _, l := range Lines() {
		points += len(l)
		for i := 1; i < len(l); i++ {
			if math.Abs(l[i].Lon-l[i-1].Lon) > 30 {
				t.Errorf("a line jumps from %v to %v", l[i-1], l[i])
			}
		}
	}
	if points < 4000 || points > 6000 {
		t.Errorf("%d points, want about 5000", points)
	}
}
