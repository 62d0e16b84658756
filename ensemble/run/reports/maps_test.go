package reports

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// example is a map example of one variable at two leads, with members and scores by place.
func example(variable string, base, amplitude float64) *scoring.MapExample {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 18}
	for i := range g.NX {
		g.Lon = append(g.Lon, float64(i)*10)
	}
	for j := range g.NY {
		g.Lat = append(g.Lat, 85-10*float64(j))
	}
	e := &scoring.MapExample{Grid: g, Used: 3, Full: 5, Step: 1, Control: "include"}
	field := func(f func(lon, lat float64) float64) []float32 {
		out := make([]float32, g.Size())
		for k := range out {
			out[k] = float32(f(g.Lon[k%g.NX], g.Lat[k/g.NX]))
		}
		return out
	}
	wave := func(shift float64) []float32 {
		return field(func(lon, lat float64) float64 {
			return base + amplitude*math.Cos(lat*math.Pi/90) + amplitude/4*math.Sin((lon+shift)*math.Pi/60)
		})
	}
	for _, hours := range []int{24, 48} {
		lead := ensemble.Lead(time.Duration(hours) * time.Hour)
		add := func(kind string, coarse bool, values []float32) {
			f := scoring.MapField{Variable: variable, Level: ensemble.PressureLevel(500), Lead: lead, Kind: kind, Values: values, Coarse: coarse}
			if kind == scoring.ShowDifference || kind == scoring.ShowP {
				f.Reference = "raw3"
			}
			e.Fields = append(e.Fields, f)
		}
		grow := float64(hours) / 24
		add(scoring.ShowRawMean, false, wave(0))
		mean := wave(5 * grow)
		add(scoring.ShowMean, false, mean)
		threshold, ok := scoring.EventThreshold(variable, mean)
		if !ok {
			panic(variable + ": no threshold")
		}
		above := make([]float32, len(mean))
		for k, x := range mean {
			above[k] = float32(0.5 * math.Erfc((threshold-float64(x))/(amplitude/10*grow)/math.Sqrt2))
		}
		add(scoring.ShowProbability, false, above)
		e.Fields[len(e.Fields)-1].Threshold, e.Fields[len(e.Fields)-1].Source = threshold, "published distribution, normal"
		add(scoring.ShowAnalysis, false, wave(8*grow))
		add(scoring.ShowSpread, false, field(func(float64, float64) float64 { return amplitude / 10 * grow }))
		add(scoring.ShowRawSpread, false, field(func(float64, float64) float64 { return amplitude / 20 * grow }))
		for m := range 3 {
			add(scoring.ShowMember, true, wave(float64(10*m)))
		}
		add(scoring.ShowDifference, true, field(func(lon, _ float64) float64 { return map[bool]float64{true: 1, false: -1}[lon < 90] }))
		add(scoring.ShowP, true, field(func(lon, _ float64) float64 { return map[bool]float64{true: 0.5, false: 0.001}[lon < 180] }))
	}
	return e
}

// Forecast maps have the units of forecasters, isolines where these are drawn, one scale for all leads, and
// probabilities from 0 to 100 %.
func TestPanels(t *testing.T) {
	for _, c := range []struct {
		variable        string
		base, amplitude float64
		unit, change    string
		isolines        bool
		low, high       float64 // within which the displayed means lie
		event           string
	}{
		{"gh", 5500, 300, "dam", "dam", true, 500, 600, "dam"},
		{"z", 54000, 3000, "dam", "dam", true, 500, 600, "dam"},
		{"msl", 101000, 1500, "hPa", "hPa", true, 980, 1030, "hPa"},
		{"t", 260, 15, "degC", "K", true, -40, 10, "°C"},
		{"10si", 8, 6, "m s-1", "m s-1", false, 0, 20, "m s-1"},
	} {
		panels := Panels(example(c.variable, c.base, c.amplitude))
		find := func(what string) *report.Panel {
			i := slices.IndexFunc(panels, func(p report.Panel) bool { return strings.Contains(p.Title, what) })
			if i < 0 {
				t.Fatalf("%s: no panel of %s", c.variable, what)
			}
			return &panels[i]
		}
		mean, spread, lines := find(": mean"), find(": spread"), find("isolines of")
		if mean.Unit != c.unit || spread.Unit != c.change || (mean.Isolines > 0) != c.isolines {
			t.Errorf("%s: units %s and %s, isolines every %g", c.variable, mean.Unit, spread.Unit, mean.Isolines)
		}
		for _, m := range mean.Maps {
			for _, v := range m.Values {
				if float64(v) < c.low || float64(v) > c.high {
					t.Fatalf("%s: %s has %g %s", c.variable, m.Title, v, c.unit)
				}
			}
		}
		if len(mean.SameScale) != 6 || !strings.Contains(lines.Title, c.event) || len(lines.Maps[0].Spaghetti.Lines) != 3+2 {
			t.Errorf("%s: scale with %d fields; %q with %d lines", c.variable, len(mean.SameScale), lines.Title, len(lines.Maps[0].Spaghetti.Lines))
		}
		if stamps := find(": members"); len(stamps.Maps) != 3 || !stamps.Folded || !stamps.PageOnly {
			t.Errorf("%s: %d stamps", c.variable, len(stamps.Maps))
		}
		p := find("probability above")
		low, high := slices.Min(p.Maps[0].Values), slices.Max(p.Maps[0].Values)
		if !p.Probability || p.Note != "From: published distribution, normal." || low < 0 || high > 100 || high-low < 50 {
			t.Errorf("%s: probabilities from %g to %g %%", c.variable, low, high)
		}
	}
}

// A map by place is pale where the difference is not significant at a false discovery rate of 10 %, and counts
// the area where the network is better and worse.
func TestPlacePanels(t *testing.T) {
	panels := PlacePanels(example("t", 260, 15))
	if len(panels) != 2 || len(panels[0].Maps) != 1 {
		t.Fatalf("%d panels", len(panels))
	}
	m := panels[0].Maps[0]
	for k, muted := range m.Muted {
		if lon := m.Grid.Lon[k%m.Grid.NX]; muted != (lon < 180) {
			t.Fatalf("at %g east: muted %t", lon, muted)
		}
	}
	if want := "better on 50 % of the area, worse on 0 %"; m.Title != want || m.WorseShare != 0 {
		t.Errorf("%q, want %q", m.Title, want)
	}
	few := example("t", 260, 15)
	few.Fields = slices.DeleteFunc(few.Fields, func(f scoring.MapField) bool { return f.Kind == scoring.ShowP })
	for i := range few.Fields {
		few.Fields[i].NoTest = "not tested"
	}
	if m := PlacePanels(few)[0].Maps[0]; m.Title != "not tested" || m.Muted != nil || m.WorseShare != 0 {
		t.Errorf("without tests: %q, muted %v", m.Title, m.Muted)
	}
}

// A report of many variables and leads has several files below the limit, without scripts. Each variable and lead is in one of
// them, with all its maps; the first file has the others in its contents, and they link back.
func TestPageSize(t *testing.T) {
	all, units := &scoring.MapExample{}, 0
	for i, v := range []string{"gh", "t", "msl", "u", "q", "z"} {
		e := example(v, []float64{5500, 260, 101000, 5, 0.01, 54000}[i], []float64{300, 15, 1500, 20, 0.008, 3000}[i])
		fields := append(all.Fields, e.Fields...)
		all = e
		all.Fields = fields
		units += 2
	}
	page := &report.Page{Title: "Many targets", Panels: Panels(all), Places: PlacePanels(all)}
	want := map[string]int{} // at both leads
	for _, p := range page.Panels {
		want[p.Title]++
	}
	const limit = 500_000 // the fields are smooth and there are no scores
	parts, err := page.Parts(PageFile, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) < 2 || parts[0].Name != PageFile || parts[1].Name != "index-2.html" {
		t.Fatalf("%d parts", len(parts))
	}
	found := map[string]int{}
	for i, p := range parts {
		if len(p.Text) > limit || bytes.Contains(p.Text, []byte("<script")) {
			t.Errorf("%s: %d bytes", p.Name, len(p.Text))
		}
		for title := range want {
			found[title] += bytes.Count(p.Text, []byte(">"+html.EscapeString(strings.ReplaceAll(title, "500hPa", "500\u202fhPa"))+"<"))
		}
		for k, other := range parts {
			if linked := bytes.Contains(p.Text, []byte(`href="`+other.Name+`"`)); linked != (k != i) {
				t.Errorf("%s links to %s: %t", p.Name, other.Name, linked)
			}
		}
		if !bytes.Contains(p.Text, []byte(fmt.Sprintf("of %d variables and leads", units))) {
			t.Errorf("%s does not state what it leaves out", p.Name)
		}
	}
	for title, n := range want {
		if found[title] != n {
			t.Errorf("%q is %d times in the parts, want %d", title, found[title], n)
		}
	}
}

// Files of an earlier, larger report are removed.
func TestStaleParts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"index-2.html", "index-3.html", "index-5.html"} {
		runtest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644))
	}
	runtest.Must(t, WritePage(dir, &report.Page{Title: "Small"}))
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	runtest.Must(t, err)
	if len(names) != 2 || filepath.Base(names[0]) != "index-5.html" || filepath.Base(names[1]) != PageFile { // 5 does not follow: another file
		t.Errorf("files %q", names)
	}
}
