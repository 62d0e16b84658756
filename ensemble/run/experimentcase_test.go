package run

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// studied makes case studies of what was verified: in a box, all gains are those of verify there.
func studied(t *testing.T, o VerifyOptions) {
	t.Helper()
	o.Out, o.Choice = "", ScoreChoice{Regions: []string{"tropics"}}
	whole, err := Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "box")
	c, err := RunCase(context.Background(), CaseOptions{Verify: o, Dir: dir, Box: "tropics", Maps: 1, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	last := c.Rows[len(c.Rows)-1]
	if len(c.Rows) != 4 || last.Start != "all" || last.Starts != 3 {
		t.Fatalf("%d rows, the last is %+v", len(c.Rows), last)
	}
	found := 0
	for _, g := range whole.Scores.Comparisons {
		if g.ID != "crps_gauss" || g.ReferenceID != "crps_plain" || g.Reference != "raw4" || g.Region == score.LargestEFI {
			continue
		}
		want := map[string]score.Number{"all": last.Everywhere, "tropics": last.Gain}[g.Region]
		found++
		if math.Abs(float64(g.Gain-want)) > 1e-6 {
			t.Errorf("gain in %s: %g, verify has %g", g.Region, want, g.Gain)
		}
	}
	for _, v := range whole.Scores.Scores {
		if v.Region == "tropics" && v.System == "raw3" && v.ID == "crps_plain" && math.Abs(float64(v.Value-last.RawUsed)) > 1e-6 {
			t.Errorf("CRPS of the members used: %g, verify has %g", last.RawUsed, v.Value)
		}
	}
	if found != 2 {
		t.Errorf("%d gains to compare with", found)
	}
	for _, path := range append(c.Outputs(), filepath.Join(dir, "report", "map-01-3.png")) {
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report", "index.html"))
	if err != nil || !strings.Contains(string(page), `class="outline"`) || !strings.Contains(string(page), "gain in the area") {
		t.Errorf("the page has no outline, or no number: %v", err)
	}

	// The event with the largest index: its mean is at least that of the same disc on other starts.
	extreme := CaseOptions{Verify: o, Dir: filepath.Join(t.TempDir(), "efi"), EFIRadius: 3000, Version: "test"}
	e, err := RunCase(context.Background(), extreme)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Rows[0]
	if len(e.Rows) != 1 || !(math.Abs(float64(r.EFI)) > 0.1) || r.Points < 2 {
		t.Fatalf("%+v", e.Rows)
	}
	track := filepath.Join(t.TempDir(), "track.csv")
	line := func(when string) string {
		return when + "," + asJSON(r.Lat) + "," + asJSON(r.Lon) + ",3000\n"
	}
	if err := os.WriteFile(track, []byte("time,lat,lon,radius_km\n"+line("1990-01-01T00:00:00Z")+line("2030-01-01T00:00:00Z")), 0o644); err != nil {
		t.Fatal(err)
	}
	along, err := RunCase(context.Background(), CaseOptions{Verify: o, Dir: filepath.Join(t.TempDir(), "track"), Track: track, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, x := range along.Rows {
		if x.Start == r.Start && math.Abs(float64(x.Gain-r.Gain)) < 1e-9 {
			same++
		}
		if math.Abs(float64(x.EFI)) > math.Abs(float64(r.EFI))+1e-9 {
			t.Errorf("start %s has the index %g, the largest is said to be %g", x.Start, x.EFI, r.EFI)
		}
	}
	if len(along.Rows) != 4 || same != 1 {
		t.Errorf("along the track %+v, the event is %+v", along.Rows, r)
	}
	for _, c := range []struct {
		change func(*CaseOptions)
		want   string
	}{
		{func(o *CaseOptions) { o.EFIRadius = 0 }, "needs one area"},
		{func(o *CaseOptions) { o.Box = "tropics" }, "2 of them"},
		{func(o *CaseOptions) { o.Verify.RunDir = "" }, "no extreme forecast index"},
		{func(o *CaseOptions) { o.Starts = []string{"1999-01-01"} }, "this start is not published"},
		{func(o *CaseOptions) { o.Variables = []string{"tp"} }, "nothing of these variables"},
		{func(o *CaseOptions) { o.EFIRadius, o.Box = 0, "nowhere=89.9:90:1:1.0001" }, "the box is empty"},
	} {
		bad := extreme
		c.change(&bad)
		if _, err := RunCase(context.Background(), bad); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func asJSON(n score.Number) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// A track is read with its faults, and followed the shorter way around the globe.
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

// A disc holds the points within its radius, also over a pole and the date line; its rim lies at
// that distance; maps show it with what is around.
func TestDisc(t *testing.T) {
	places := [][2]float64{{0, 0}, {8, 0}, {10, 0}, {0, 359}, {0, -8.9}, {89, 0}, {89, 180}}
	var directions [][3]float64
	for _, p := range places {
		directions = append(directions, direction(p[0], p[1]))
	}
	const degree = math.Pi / 180 * earthRadius
	if in := disc(directions, direction(0, 0), 9*degree); !slices.Equal(in, []bool{true, true, false, true, true, false, false}) {
		t.Errorf("about 0, 0: %v", in)
	}
	if in := disc(directions, direction(89, 90), 1.5*degree); !slices.Equal(in, []bool{false, false, false, false, false, true, true}) {
		t.Errorf("over the pole: %v", in)
	}
	for _, p := range circle(-17, 178, 700) {
		d, c := direction(p.Lat, p.Lon), direction(-17, 178)
		if a := math.Acos(d[0]*c[0]+d[1]*c[1]+d[2]*c[2]) * earthRadius; math.Abs(a-700) > 1e-6 || math.Abs(p.Lon-178) > 10 {
			t.Errorf("rim at %+v, %g km away", p, a)
		}
	}
	g, err := ensemble.NamedGrid("2.5deg")
	if err != nil {
		t.Fatal(err)
	}
	part, at := around(g, circle(-17, 178, 700))
	if part == g || len(at) != part.Size() || part.NX > 14 || part.NY > 14 || g.LonAt(0, at[0]%g.NX) > 180 || g.LonAt(0, at[part.NX-1]%g.NX) < 180 {
		t.Errorf("around the date line: %s of %d places", part, len(at))
	}
	if part, at := around(g, edge(-20, 20, 0, 360)); part != g || len(at) != g.Size() {
		t.Errorf("around the tropics: %s", part)
	}
}
