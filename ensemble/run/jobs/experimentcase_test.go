package jobs

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/casestudy"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// checkCaseStudy compares case studies with verification: in a box, all skill scores equal those of verify
// for this region.
func checkCaseStudy(t *testing.T, o verify.Options) {
	t.Helper()
	o.Out, o.Selection = "", scoring.Selection{Regions: []string{"tropics"}}
	whole, err := verify.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "box")
	c, err := casestudy.Run(context.Background(), casestudy.Options{Verify: o, Dir: dir, Box: "tropics", Maps: 1, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	last := c.Rows[len(c.Rows)-1]
	if len(c.Rows) != 4 || last.Init != "all" || last.Inits != 3 {
		t.Fatalf("%d rows, the last is %+v", len(c.Rows), last)
	}
	found := 0
	for _, g := range whole.Scores.Comparisons {
		if g.ID != "crps_gauss" || g.ReferenceID != "crps_plain" || g.Reference != "raw4" || g.Region == score.LargestEFI {
			continue
		}
		want := map[string]score.Number{"all": last.CRPSSDomain, "tropics": last.CRPSS}[g.Region]
		found++
		if math.Abs(float64(g.SkillScore-want)) > 1e-6 {
			t.Errorf("skill score in %s: %g, verify has %g", g.Region, want, g.SkillScore)
		}
	}
	for _, v := range whole.Scores.Scores {
		if v.Region == "tropics" && v.System == "raw3" && v.ID == "crps_plain" && math.Abs(float64(v.Value-last.RawUsed)) > 1e-6 {
			t.Errorf("CRPS of the members used: %g, verify has %g", last.RawUsed, v.Value)
		}
	}
	if found != 2 {
		t.Errorf("%d skill scores to compare with", found)
	}
	for _, path := range append(c.Outputs(), filepath.Join(dir, "report", "map-01-3.png")) {
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report", "index.html"))
	if err != nil || !strings.Contains(string(page), `class="outline"`) || !strings.Contains(string(page), "CRPSS in the area") {
		t.Errorf("the page has no outline, or no number: %v", err)
	}

	// The event with the largest index: its mean is at least that of the same disc on other starts.
	extreme := casestudy.Options{Verify: o, Dir: filepath.Join(t.TempDir(), "efi"), EFIRadius: 3000, Version: "test"}
	e, err := casestudy.Run(context.Background(), extreme)
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
	along, err := casestudy.Run(context.Background(), casestudy.Options{Verify: o, Dir: filepath.Join(t.TempDir(), "track"), Track: track, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, x := range along.Rows {
		if x.Init == r.Init && math.Abs(float64(x.CRPSS-r.CRPSS)) < 1e-9 {
			same++
		}
		if math.Abs(float64(x.EFI)) > math.Abs(float64(r.EFI))+1e-9 {
			t.Errorf("initialisation %s has the index %g, reported as largest is %g", x.Init, x.EFI, r.EFI)
		}
	}
	if len(along.Rows) != 4 || same != 1 {
		t.Errorf("along the track %+v, the event is %+v", along.Rows, r)
	}
	for _, c := range []struct {
		change func(*casestudy.Options)
		want   string
	}{
		{func(o *casestudy.Options) { o.EFIRadius = 0 }, "needs exactly one area"},
		{func(o *casestudy.Options) { o.Box = "tropics" }, "2 of them"},
		{func(o *casestudy.Options) { o.Verify.RunDir = "" }, "no extreme forecast index"},
		{func(o *casestudy.Options) { o.Inits = []string{"1999-01-01"} }, "this initialisation is not published"},
		{func(o *casestudy.Options) { o.Variables = []string{"tp"} }, "no product has these variables"},
		{func(o *casestudy.Options) { o.Variables = []string{"t700"} }, "no product has these variables"},
		{func(o *casestudy.Options) { o.Variables = []string{"t@850"} }, "invalid variable"},
		{func(o *casestudy.Options) { o.EFIRadius, o.Box = 0, "nowhere=89.9:90:1:1.0001" }, "the box contains no grid point"},
	} {
		bad := extreme
		c.change(&bad)
		if _, err := casestudy.Run(context.Background(), bad); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func asJSON(n score.Number) string {
	text, _ := json.Marshal(n)
	return string(text)
}
