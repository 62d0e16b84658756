package report

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// globe is a regular grid of cells of 360/nx degrees, rows at cell centres.
func globe(nx, ny int) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: nx, NY: ny}
	for i := range nx {
		g.Lon = append(g.Lon, float64(i)*360/float64(nx))
	}
	for j := range ny {
		g.Lat = append(g.Lat, 90-(float64(j)+0.5)*180/float64(ny))
	}
	return g
}

// stereographic is a polar stereographic grid around the north pole, and the true
// place of any point on it.
func stereographic(nx, ny int, step float64) (*ensemble.Grid, func(lon, lat float64) point) {
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: nx, NY: ny}
	const r = 6371e3
	for i := range nx {
		g.X = append(g.X, (float64(i)-float64(nx-1)/2)*step)
	}
	for j := range ny {
		g.Y = append(g.Y, (float64(ny-1)/2-float64(j))*step-1.5e6)
	}
	for _, y := range g.Y {
		for _, x := range g.X {
			g.Lat = append(g.Lat, 90-2*math.Atan(math.Hypot(x, y)/(2*r))*180/math.Pi)
			g.Lon = append(g.Lon, math.Atan2(x, -y)*180/math.Pi)
		}
	}
	return g, func(lon, lat float64) point {
		d := 2 * r * math.Tan((90-lat)*math.Pi/360)
		s, c := math.Sincos(lon * math.Pi / 180)
		return point{d * s, -d * c}
	}
}

// filled returns a value for each point of a grid.
func filled(g *ensemble.Grid, f func(lon, lat float64) float64) []float32 {
	out := make([]float32, g.Size())
	for k := range out {
		out[k] = float32(f(g.LonAt(k/g.NX, k%g.NX), g.LatAt(k/g.NX, k%g.NX)))
	}
	return out
}

func wave(lon, lat float64) float64 {
	a, b := lon*math.Pi/180, lat*math.Pi/180
	return 250 + 45*math.Cos(b) + 8*math.Sin(3*a)*math.Cos(b)
}

var noon = ensemble.ValidAt(time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC))

// samplePage has every part, with text that must be escaped.
func samplePage() *Page {
	g := globe(64, 32)
	hole := filled(g, wave)
	for k := range hole {
		if k/64 > 20 && k/64 < 25 && k%64 > 30 && k%64 < 40 {
			hole[k] = float32(math.NaN())
		}
	}
	region := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 31, NY: 21}
	for i := range 31 {
		region.Lon = append(region.Lon, math.Mod(350+float64(i), 360))
	}
	for j := range 21 {
		region.Lat = append(region.Lat, 60-float64(j))
	}
	polar, _ := stereographic(40, 30, 150e3)
	stations := &ensemble.Grid{Kind: ensemble.Points, NX: 3, NY: 1, Lon: []float64{8.5, 7, 9.1}, Lat: []float64{47.4, 46.2, 45.5}}
	void := make([]float32, g.Size())
	for k := range void {
		void[k] = float32(math.NaN())
	}
	value := func(system, id string, v, low, high float64) score.Value {
		return score.Value{ID: id, System: system, Variable: "t", Level: "850hPa", Lead: "48h", LeadH: 48, Value: score.Number(v), CILow: score.Number(low), CIHigh: score.Number(high),
			N: 30, Unit: "K", Members: 10, Divisor: "M-1", Weights: "cos(latitude)", Formula: "<(m-y)^2>", Points: 61440}
	}
	return &Page{
		Title:  `Report of <run> & "co"`,
		Status: []Fact{{"status", "degraded"}, {"members", "9 used of 10"}},
		Panels: []Panel{
			{Title: "Temperature at 850hPa: mean", Unit: "K", Valid: noon, Maps: []Map{{Title: "raw mean", Grid: g, Values: filled(g, wave), Outline: []Place{{170, -30}, {200, -30}, {200, 0}, {170, 0}, {170, -30}}}, {Title: "post-processed mean", Grid: g, Values: hole}}},
			{Title: "Wind at 10m: difference", Unit: "m s-1", Valid: noon, Diverging: true, Maps: []Map{{Title: "post-processed minus raw", Grid: region, Values: filled(region, func(lon, lat float64) float64 { return math.Sin(lon/5) + math.Cos(lat/7) }), Outline: []Place{{0, 45}, {5, 50}}},
				{Title: "polar", Grid: polar, Values: filled(polar, func(lon, lat float64) float64 { return math.Cos(lon*math.Pi/180) * (90 - lat) / 30 }), Outline: []Place{{0, 80}, {90, 80}}}, {Title: "stations", Grid: stations, Values: []float32{-2, 1, float32(math.NaN())}}}},
			{Title: "Nothing", Unit: "K", Valid: noon, Maps: []Map{{Title: "all missing", Grid: g, Values: void}}},
		},
		Charts: []Chart{{Title: "Loss", X: "epoch", Y: "loss", Lines: []Line{{Name: "training", X: []float64{1, 2, 3}, Y: []float64{0.9, 0.5, 0.4}}, {Name: "validation", X: []float64{1, 2, 3}, Y: []float64{0.8, math.NaN(), 0.45}}}}},
		Scores: &score.Result{
			Scores: []score.Value{value("network", "rmse", 1.25, 1.2, 1.3), value("raw10", "rmse", 1.5, 1.4, 1.6), value("network", "bias", -0.1, -0.2, 0), value("raw10", "bias", 0.05, 0, 0.1),
				value("network", "spread_skill", 0.98, 0.9, 1.1), value("raw10", "spread_skill", 0.6, 0.5, 0.7), value("network", "spread", 1, math.NaN(), math.NaN()), value("raw10", "spread", 0.7, 0.6, 0.8)},
			Comparisons: []score.Comparison{{ID: "rmse", System: "network", Reference: "raw10", ReferenceID: "rmse", Variable: "t", Level: "850hPa", Lead: "48h", SkillScore: 0.1667, CILow: 0.1, CIHigh: 0.2, N: 30},
				{ID: "rmse", System: "network", Reference: "emos", ReferenceID: "rmse", Variable: "t", Level: "850hPa", Lead: "48h", SkillScore: 0.01, CILow: -0.02, CIHigh: 0.03, N: 30}},
			Ranks:     []score.RankHistogram{{System: "raw10", Variable: "t", Level: "850hPa", Lead: "48h", Members: 3, N: 30, Counts: []float64{400, 100, 200, 300}, Shares: []float64{0.4, 0.1, 0.2, 0.3}}},
			Bootstrap: significance.Bootstrap{Resamples: 2000, BlockLength: 4, Confidence: 0.95},
		},
		Config:   "version: 1\nname: <b>bold</b>\n",
		Inputs:   []File{{"fc.grib2", 1234567, strings.Repeat("ab", 32)}},
		Facts:    []Fact{{"host", "node17"}},
		Warnings: []string{"member 7 is missing at 48h"},
	}
}

func write(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page must be well-formed even as XML, load nothing, run nothing, and describe
// every picture with numbers.
func TestPageIsWholeAndQuiet(t *testing.T) {
	text := write(t, samplePage())
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "<!DOCTYPE html>")))
	d.Entity = xml.HTMLEntity
	ids, links, pictures := map[string]bool{}, []string{}, 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		at := map[string]string{}
		for _, a := range e.Attr {
			at[a.Name.Local] = a.Value
			if strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("<%s> has a script in %s", e.Name.Local, a.Name.Local)
			}
		}
		ids[at["id"]] = true
		switch e.Name.Local {
		case "script", "iframe", "link", "object", "embed", "base":
			t.Errorf("the page has a <%s>", e.Name.Local)
		}
		if strings.HasPrefix(at["href"], "#") {
			links = append(links, at["href"][1:])
		} else if h := at["href"] + at["src"]; h != "" && !strings.HasPrefix(h, "data:image/png;base64,") {
			t.Errorf("<%s> refers to %q", e.Name.Local, h)
		}
		if at["role"] == "img" {
			pictures++
			if !regexp.MustCompile(`\d`).MatchString(at["aria-label"]) && !strings.Contains(at["aria-label"], "All values are missing") {
				t.Errorf("<%s class=%q> has no numbers in its text %q", e.Name.Local, at["class"], at["aria-label"])
			}
		}
	}
	for _, l := range links {
		if !ids[l] {
			t.Errorf("a link goes to #%s, which is not there", l)
		}
	}
	// 6 maps, 3 bars, 1 chart, 2 skill scores, 1 rank histogram
	if want := 13; pictures != want {
		t.Errorf("%d pictures, want %d", pictures, want)
	}
	prose := regexp.MustCompile(`data:image/png;base64,[A-Za-z0-9+/=]*`).ReplaceAllString(text, "") // encoded pictures may contain any letters
	for _, no := range []string{"http:", "https:", "url(//", "@import", "<run>", "<b>bold", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(prose, no) {
			t.Errorf("the page contains %q", no)
		}
	}
	for _, want := range []string{"degraded", "9 used of 10", "2026-01-03 12:00 UTC", "850\u202fhPa", "m s⁻¹", "1 warning", "member 7 is missing", "1\u202f234\u202f567", "★ 1.250", "▲ better", "○ undecided",
		"+16.7\u202f%", "2000 resamples of blocks of up to 4 dates", "divisor M − 1", "missing</text>", "Missing values are hatched", "All values are missing", "36 of 2048 points missing"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// The best value of a column is the smallest, nearest to 0 or nearest to 1, by the direction of
// the score; a score without direction has none.
func TestBestOfColumn(t *testing.T) {
	got := targets(samplePage().Scores)[0]
	want := map[string]string{"rmse": "network", "bias": "raw10", "spread_skill": "network", "spread": ""}
	for c, col := range got.Columns {
		best := ""
		for _, r := range got.Rows {
			if r.Cells[c].Best {
				best += r.System
			}
		}
		if best != want[col.ID] {
			t.Errorf("%s: best is %q, want %q", col.ID, best, want[col.ID])
		}
	}
	if g := got.Gains; !g[0].Decided || g[1].Decided {
		t.Errorf("skill scores: %+v", g)
	}
}

func TestEmptyPage(t *testing.T) {
	if text := write(t, &Page{Title: "x"}); !strings.Contains(text, "No warnings") || strings.Contains(text, "id=\"maps\"") {
		t.Error("an empty page is wrong")
	}
}

func TestMapThatDoesNotFillItsGrid(t *testing.T) {
	p := Panel{Title: "x", Maps: []Map{{Title: "y", Grid: globe(8, 4), Values: make([]float32, 31)}}}
	if err := (&Page{Panels: []Panel{p}}).Write(io.Discard); err == nil {
		t.Error("the page was written")
	}
	if err := p.PNG(0)(io.Discard); err == nil {
		t.Error("the picture was written")
	}
}

// Every kind of map must come out as a PNG that is not blank.
func TestPNG(t *testing.T) {
	for _, p := range samplePage().Panels {
		for j, m := range p.Maps {
			var b bytes.Buffer
			if err := p.PNG(j)(&b); err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[[3]uint32]bool{}
			for y := 0; y < img.Bounds().Dy(); y += 3 {
				for x := 0; x < img.Bounds().Dx(); x += 3 {
					r, g, b, _ := img.At(x, y).RGBA()
					seen[[3]uint32{r, g, b}] = true
				}
			}
			if len(seen) < 10 {
				t.Errorf("%s, %s: %d colours", p.Title, m.Title, len(seen))
			}
		}
	}
}

// Every score that is drawn has its picture with numbers in words, and a table; several
// leads make a chart, regions a table.
func TestDiagrams(t *testing.T) {
	page := &Page{Title: "Scores", Scores: scoredSample(t, 14)}
	text := write(t, page)
	for _, want := range []string{"network: PIT histogram", "raw4: reliability above 0.4", "raw4: ROC above", "network: economic value above", "raw4: spread and skill",
		"spread and RMSE of the mean by lead", "By region and season", `<td class="text">west</td>`, "the range of a flat histogram", "p &lt; 0.001", "brier &gt; 0.4"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for dates, text := range map[int]string{14: text, 5: write(t, &Page{Title: "Scores", Scores: scoredSample(t, 5)})} {
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("the page of %d dates shows NaN or Inf", dates)
		}
	}
	if n := strings.Count(text, `class="plot"`); n != 18+6 { // two leads × (PIT, and for two systems reliability, ROC, value, spread); at a glance (spread, reliability, PIT)
		t.Errorf("%d diagrams, want 24", n)
	}
}

// scoredSample is a result of random forecasts with every kind of score.
func scoredSample(t *testing.T, dates int) *score.Result {
	t.Helper()
	const points, m = 400, 4
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(scale, shift float64) []float32 {
		out := make([]float32, points)
		for p := range out {
			out[p] = float32(shift + scale*r.NormFloat64())
		}
		return out
	}
	west := score.Region{Name: "west", Mask: make([]bool, points)}
	weights := make([]float64, points)
	for p := range points {
		weights[p], west.Mask[p] = 1, p%20 < 10
	}
	all := &score.Result{}
	for _, hours := range []int{24, 48} {
		a, err := score.New(score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(time.Duration(hours) * time.Hour), Unit: "K"},
			score.Grid{Weights: weights, Name: "equal", NX: 20}, []score.System{{Name: "network", MembersUsed: m, Provides: score.Mean | score.Spread}, {Name: "raw4", MembersUsed: m, Provides: score.Members}},
			score.Options{Scores: score.IDs(), Thresholds: []float64{0.4}, Regions: []score.Region{west}})
		if err != nil {
			t.Fatal(err)
		}
		for k := range dates {
			obs, signal := draw(1, 0), draw(1, 0)
			mean, spread := make([]float32, points), make([]float32, points)
			raw := score.Sample{}
			for p := range obs {
				obs[p] += signal[p]
				mean[p], spread[p] = signal[p], float32(0.6+0.8*r.Float64())
				obs[p] = signal[p] + spread[p]*(obs[p]-signal[p])
			}
			for range m {
				x := draw(0.7, 0.2)
				for p := range x {
					x[p] = signal[p] + spread[p]*x[p]
				}
				raw.Members = append(raw.Members, x)
			}
			init := ensemble.InitAt(time.Date(2020, 1, 1+7*k, 0, 0, 0, 0, time.UTC))
			if err := a.Add(init, score.Reference{Obs: obs}, []score.Sample{{Mean: mean, Spread: spread}, raw}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := a.Result(significance.Bootstrap{Resamples: 200}, a.Pairs("network", "raw4"))
		if err != nil {
			t.Fatal(err)
		}
		all.Append(res)
	}
	return all
}
