package casestudy

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A track is parsed with its errors, and interpolated across the date line if that is shorter.
func TestTrack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	read := func(text string) ([]TrackPoint, error) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return ReadTrack(path)
	}
	const head = "time,lat,lon,radius_km\n"
	track, err := read(head + "2016-02-20T00:00:00Z,-17,178,400\n2016-02-20T12:00:00Z,-19,-178,600\n")
	if err != nil {
		t.Fatal(err)
	}
	at := func(hour int) (TrackPoint, bool) {
		return trackAt(track, time.Date(2016, 2, 20, hour, 0, 0, 0, time.UTC))
	}
	if p, ok := at(3); !ok || p.Lat != -17.5 || p.Lon != 179 || p.RadiusKM != 450 {
		t.Errorf("at 3 h %+v", p)
	}
	if p, ok := at(12); !ok || p.Lat != -19 {
		t.Errorf("at the end %+v", p)
	}
	if _, ok := at(13); ok {
		t.Error("behind the end")
	}
	for _, text := range []string{"", head, "lat,lon\n1,2\n", head + "yesterday,0,0,1\n", head + "2016-02-20T00:00:00Z,95,0,1\n", head + "2016-02-20T00:00:00Z,5,0,-1\n",
		head + "2016-02-20T00:00:00Z,x,0,1\n", head + "2016-02-20T00:00:00Z,0,0,1\n2016-02-20T00:00:00Z,0,0,1\n", head + "2016-02-20T00:00:00Z,0\n"} {
		if _, err := read(text); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A disc contains the points within its radius, also across a pole and the date line; its outline has this
// distance; maps show it with its surroundings.
func TestDisc(t *testing.T) {
	places := [][2]float64{{0, 0}, {8, 0}, {10, 0}, {0, 359}, {0, -8.9}, {89, 0}, {89, 180}}
	var directions [][3]float64
	for _, p := range places {
		directions = append(directions, unitVector(p[0], p[1]))
	}
	const degree = math.Pi / 180 * earthRadius
	if in := disc(directions, unitVector(0, 0), 9*degree); !slices.Equal(in, []bool{true, true, false, true, true, false, false}) {
		t.Errorf("about 0, 0: %v", in)
	}
	if in := disc(directions, unitVector(89, 90), 1.5*degree); !slices.Equal(in, []bool{false, false, false, false, false, true, true}) {
		t.Errorf("over the pole: %v", in)
	}
	for _, p := range circle(-17, 178, 700) {
		d, c := unitVector(p.Lat, p.Lon), unitVector(-17, 178)
		if a := math.Acos(d[0]*c[0]+d[1]*c[1]+d[2]*c[2]) * earthRadius; math.Abs(a-700) > 1e-6 || math.Abs(p.Lon-178) > 10 {
			t.Errorf("rim at %+v, %g km away", p, a)
		}
	}
	g, err := ensemble.NamedGrid("2.5deg")
	if err != nil {
		t.Fatal(err)
	}
	part, at := mapExtent(g, circle(-17, 178, 700))
	if part == g || len(at) != part.Size() || part.NX > 14 || part.NY > 14 || g.LonAt(0, at[0]%g.NX) > 180 || g.LonAt(0, at[part.NX-1]%g.NX) < 180 {
		t.Errorf("around the date line: %s of %d places", part, len(at))
	}
	if part, at := mapExtent(g, boxOutline(-20, 20, 0, 360)); part != g || len(at) != g.Size() {
		t.Errorf("around the tropics: %s", part)
	}
}
