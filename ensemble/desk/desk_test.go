package desk

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// folder is a source of products in a folder.
type folder struct {
	root    string
	members *scoring.MapExample
}

func (f *folder) Inits() (out []string) {
	all, _ := filepath.Glob(filepath.Join(f.root, "2*"))
	for _, path := range all {
		out = append(out, filepath.Base(path))
	}
	slices.Reverse(out)
	return out
}

func (f *folder) Products(name string) (*Products, error) {
	m, err := product.ReadManifest(filepath.Join(f.root, name))
	if err != nil || strings.Contains(name, "/") {
		return nil, published.ErrNoProducts
	}
	return &Products{Init: &published.Init{Name: name, Manifest: m, Revision: m.End.String()}}, nil
}

func (f *folder) Members(string) (*scoring.MapExample, error) { return f.members, nil }

// newDesk makes a desk of a folder.
func newDesk(t testing.TB, f *folder) *Desk {
	t.Helper()
	r := published.NewReader(func(of *published.Init, output string) (string, error) {
		return filepath.Join(f.root, of.Name, output), nil
	}, decode.Options{Program: testdecoder.Path(t), Children: MaxDrawing})
	t.Cleanup(r.Close)
	return New(f, r)
}

// global is a grid of 10°.
func global() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 19}
	for i := range 36 {
		g.Lon = append(g.Lon, 10*float64(i))
	}
	for j := range 19 {
		g.Lat = append(g.Lat, 90-10*float64(j))
	}
	return g
}

// filled is a field by latitude and longitude.
func filled(g *ensemble.Grid, f func(lat, lon float64) float64) []float32 {
	out := make([]float32, g.Size())
	for k := range out {
		out[k] = float32(f(g.LatAt(k/g.NX, k%g.NX), g.LonAt(k/g.NX, k%g.NX)))
	}
	return out
}

// temperature is linear in latitude, so that interpolation is exact: 273.15 K at the equator, half a kelvin colder for each
// degree northwards, a kelvin warmer for each day.
func temperature(lat float64, hours int) float64 { return 273.15 - lat/2 + float64(hours)/24 }

// publish writes products of two variables at three leads, one of them in NetCDF with quantiles and probabilities, as predict
// publishes them.
func publish(t testing.TB, formats ...product.Format) *folder {
	t.Helper()
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	f := &folder{root: t.TempDir()}
	for day := 1; day <= 2; day++ {
		g := global()
		p := &product.Product{Init: ensemble.InitAt(at(day, 0)), Grid: g, Metadata: product.Metadata{Members: []ensemble.Member{0, 1, 2}, Control: "include"}}
		t850, gh500 := ensemble.PressureLevel(850), ensemble.PressureLevel(500)
		add := func(x product.Field, hours int, of func(lat, lon float64) float64) {
			x.Lead, x.Values = ensemble.Lead(time.Duration(hours)*time.Hour), filled(g, of)
			p.Fields = append(p.Fields, x)
		}
		for _, hours := range []int{24, 48, 72} {
			add(product.Field{Variable: "t", Level: t850, Kind: product.Mean}, hours, func(lat, _ float64) float64 { return temperature(lat, hours) })
			add(product.Field{Variable: "t", Level: t850, Kind: product.Spread}, hours, func(_, _ float64) float64 { return 2 })
			for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9} {
				add(product.Field{Variable: "t", Level: t850, Kind: product.Quantile, Below: q}, hours, func(lat, _ float64) float64 { return temperature(lat, hours) + 4.4*(q-0.5) })
			}
			add(product.Field{Variable: "t", Level: t850, Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Below, Upper: 273.15}}, hours, func(lat, _ float64) float64 { return (lat + 90) / 180 })
			if hours < 72 {
				add(product.Field{Variable: "gh", Level: gh500, Kind: product.Mean}, hours, func(lat, lon float64) float64 {
					return 5500 + 300*math.Cos(lat*math.Pi/90) + 80*math.Sin((lon+float64(hours))*math.Pi/60)
				})
			}
		}
		if _, _, err := product.Publish(t.Context(), pool, f.root, p, product.Publication{Formats: formats}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// ask answers a query, which must have a code, and contain words.
func ask(t testing.TB, d *Desk, query string, code int, words ...string) Answer {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Answer(t.Context(), Page{Headline: Headline{State: Fresh, Word: "Fresh", Text: "text", Do: "do"}}, q)
	if err != nil {
		t.Fatal(err)
	}
	text := html.UnescapeString(string(a.Text))
	if a.Code != code {
		t.Errorf("%s: code %d, want %d, %v: %s", query, a.Code, code, a.Faults, onlyErrors(text))
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: no %q in the page; %v; %s", query, w, a.Faults, onlyErrors(text))
		}
	}
	return a
}

// onlyErrors are the error messages in a page.
func onlyErrors(page string) string {
	return strings.Join(regexp.MustCompile(`<p class="error">[^<]*`).FindAllString(page, -1), "\n")
}

// TestPageOfProducts: without a query the newest products, else those that are chosen are drawn as forecasters draw them, from each
// format.
func TestPageOfProducts(t *testing.T) {
	for _, format := range []product.Format{product.NetCDF, product.Zarr, product.GRIB2} {
		d := newDesk(t, publish(t, format))
		a := ask(t, d, "", 200, "Geopotential height at 500\u202fhPa: mean", "Valid 2026-01-03 00:00Z", `>dam<`, `class="iso"`, `<option value="2026010200" selected>2026-01-02 00:00Z</option>`, `<option value="2026010100">`, "shore")
		if strings.Contains(string(a.Text), "<script") || a.Faults != nil {
			t.Errorf("%s: a script, or faults: %v", format, a.Faults)
		}
		ask(t, d, "init=2026010100&variable=t-850hPa&lead=48h&show=mean", 200, "Temperature at 850\u202fhPa: mean", "Valid 2026-01-03 00:00Z", ">°C<", `class="freezing"`, "Earlier lead", "lead=72h")
		ask(t, d, "variable=t-850hPa&show=probability-below-273.15", 200, "probability below 0 °C", ">%<", "Colour scale from 0.0 to 100.0 %")
		ask(t, d, "variable=t-850hPa&show=quantile-0.9", 200, "90 % quantile", ">°C<")
		ask(t, d, "variable=t-850hPa&show=spread", 200, ": spread", ">K<")
	}
}

// TestUnknownChoice: an unknown value is an answer 404 with the available ones; a statistic or lead that another variable has is
// replaced, with a note; a place that is none is an answer 400. Text of a query is escaped.
func TestUnknownChoice(t *testing.T) {
	d := newDesk(t, publish(t))
	ask(t, d, "init=2020010100", 404, `no initialisation with products "2020010100"`, "2026010200, 2026010100")
	ask(t, d, "init=../2026010100", 404)
	ask(t, d, "variable=q-850hPa", 404, `no variable "q-850hPa"`, "gh-500hPa, t-850hPa")
	ask(t, d, "lead=96h", 404, `no lead "96h"`, "24h, 48h, 72h")
	ask(t, d, "variable=t-850hPa&show=median", 404, `no statistic "median"`, "quantile-0.5", "probability-below-273.15")
	ask(t, d, "variable=gh-500hPa&show=spread&lead=72h", 200, "has no lead 72h; 24h is shown. ", "has no spread; its mean is shown")
	ask(t, d, "variable=gh-500hPa&show=spread", 200, "has no spread; its mean is shown")
	ask(t, d, "lat=91&lon=0", 400, `"91" is not a latitude`, `class="map"`)
	ask(t, d, "lat=1&lon=x", 400, `"x" is not a longitude`)
	ask(t, d, "lat=1", 400, "is not a longitude")
	if a := ask(t, d, "init="+url.QueryEscape(`"><script>alert(1)</script>`)+"&lat="+url.QueryEscape(`"><script>`), 404); strings.Contains(string(a.Text), "<script") {
		t.Error("text of a query is not escaped")
	}
	empty := newDesk(t, &folder{root: t.TempDir()})
	ask(t, empty, "", 200, "Maps and meteograms follow with the first products")
	ask(t, empty, "init=2026010100", 404, "There is no initialisation")
}

// TestSharedScale: maps of all leads, raw and post-processed, have the same colour scale.
func TestSharedScale(t *testing.T) {
	f := publish(t)
	g := global()
	f.members = &scoring.MapExample{Init: ensemble.InitAt(at(2, 0)), Grid: g}
	for _, hours := range []int{24, 48, 72} {
		for kind, of := range map[string]func(lat, lon float64) float64{
			scoring.ShowRawMean: func(lat, _ float64) float64 { return temperature(lat, hours) + 20 }, scoring.ShowRawSpread: func(_, _ float64) float64 { return 1 }} {
			f.members.Fields = append(f.members.Fields, scoring.MapField{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(time.Duration(hours) * time.Hour), Kind: kind, Values: filled(g, of)})
		}
	}
	d := newDesk(t, f)
	bar := regexp.MustCompile(`(?s)<svg class="bar".*?</svg>`)
	var scales []string
	for _, lead := range []string{"24h", "48h", "72h"} {
		a := ask(t, d, "variable=t-850hPa&lead="+lead, 200, "mean of 3 raw members", "post-processed mean")
		if n := strings.Count(string(a.Text), `<svg class="map"`); n != 2 {
			t.Errorf("%d maps at %s, want raw and post-processed", n, lead)
		}
		scales = append(scales, bar.FindString(string(a.Text)))
	}
	if scales[0] == "" || scales[0] != scales[1] || scales[0] != scales[2] {
		t.Errorf("different scales:\n%s", strings.Join(scales, "\n"))
	}
	if a := ask(t, d, "init=2026010100&variable=t-850hPa", 200); strings.Count(string(a.Text), `<svg class="map"`) != 1 {
		t.Error("raw members of another initialisation are shown")
	}
	ask(t, d, "variable=t-850hPa&lat=0&lon=0", 200, "mean of the members ± their spread", "mean of the members (°C)")
}

// TestMeteogram: a meteogram has all leads at its place, interpolated, with units and valid times, also across the first
// meridian and at a pole.
func TestMeteogram(t *testing.T) {
	d := newDesk(t, publish(t))
	for _, lat := range []float64{47, -12, 90} {
		for _, lon := range []float64{0, 355.5, -3} {
			query := fmt.Sprintf("init=2026010100&variable=t-850hPa&lat=%g&lon=%g", lat, lon)
			page := string(ask(t, d, query, 200, "Valid times in UTC", "10 to 90 % of the calibrated distribution", "10 % quantile (°C)", "probability below 0 °C (%)").Text)
			cells := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page[strings.Index(page, `class="numbers"`):], " ")), " ")
			for _, hours := range []int{24, 48, 72} {
				mean := temperature(lat, hours) - 273.15
				row := fmt.Sprintf("2026-01-0%d 00:00Z %dh", 1+hours/24, hours)
				for _, v := range []float64{mean, 2, mean - 1.76, mean - 1.1, mean, mean + 1.1, mean + 1.76, (lat + 90) / 1.8} {
					row += " " + number(v)
				}
				if !strings.Contains(cells, row) && lat != 90 { // between the last row and the pole the mean of the row counts
					t.Errorf("%s: no row\n%s\nin\n%s", query, row, cells)
				}
			}
			if n := strings.Count(page, `class="box box`); n < 2*3*2 {
				t.Errorf("%s: %d boxes", query, n)
			}
		}
	}
	// Without quantiles the boxes are the mean with the spread; without either they are left out.
	page := string(ask(t, d, "variable=gh-500hPa&lat=10&lon=10", 200, "Geopotential height at 500\u202fhPa at 10°\u202fN 10°\u202fE", "mean (dam)").Text)
	if strings.Contains(page, `class="box box`) {
		t.Error("boxes without quantiles and spread")
	}
}

// number formats a value as in a table with one decimal.
func number(v float64) string { return report.Decimals(float64(float32(v)), 1) }

// TestClick: a click on a map leads to the address of the meteogram of its place; beside the map it is an answer 400.
func TestClick(t *testing.T) {
	d := newDesk(t, publish(t))
	g := global()
	p := report.Panel{Maps: []report.Map{{Grid: g}}}
	for _, width := range clickWidths {
		x, y, ok := p.Position(0, report.Place{Lon: -60, Lat: 30})
		if !ok {
			t.Fatal("no position")
		}
		query := fmt.Sprintf("init=2026010200&variable=t-850hPa&lead=48h&show=spread&%[1]s.x=%.0[2]f&%[1]s.y=%.0[3]f", clickName(0, width), x*float64(width), y*float64(width))
		a := ask(t, d, query, http.StatusSeeOther)
		u, err := url.Parse(a.Location)
		if err != nil || u.Fragment != "meteogram" || u.Query().Get("lead") != "48h" || u.Query().Get("show") != "spread" || u.Query().Get("init") != "2026010200" {
			t.Errorf("width %d: %q, %v", width, a.Location, err)
			continue
		}
		place, err := placeOf(u.Query())
		if err != nil || math.Abs(place.Lon+60) > 1 || math.Abs(place.Lat-30) > 1 {
			t.Errorf("width %d: %v, %v", width, place, err)
		}
		ask(t, d, u.RawQuery, 200, `class="marker"`, "Numbers of the meteogram")
	}
	ask(t, d, "variable=t-850hPa&map0-640.x=1&map0-640.y=1", 400, "not on the map")
	ask(t, d, "variable=t-850hPa&map1-640.x=200&map1-640.y=100", 400, "not on the map")
	ask(t, d, "variable=t-850hPa&map0-640.x=NaN&map0-640.y=1e300", 400, "not on the map")
}

// TestDamagedProducts: a file that is cut, overwritten or missing is a message in the page; the rest of the page stays.
func TestDamagedProducts(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 3000) },
		"overwritten": func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			for at := int64(4096); at < st.Size(); at += 64 {
				if _, err := f.WriteAt([]byte("\xff\x00garbage\xff"), at); err != nil {
					return err
				}
			}
			return nil
		},
		"foreign": func(path string) error { return os.WriteFile(path, []byte("<html>proxy error</html>"), 0o644) },
		"missing": os.Remove,
	} {
		f := publish(t)
		files, err := filepath.Glob(filepath.Join(f.root, "2026010200", "*_048h.nc"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		if err := damage(files[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		d := newDesk(t, f)
		a := ask(t, d, "init=2026010200&variable=t-850hPa&lead=48h&lat=1&lon=1", 200, `class="state fresh"`, `<option value="2026010100">`)
		if len(a.Faults) == 0 || onlyErrors(string(a.Text)) == "" {
			t.Errorf("%s: faults %v, messages %q", name, a.Faults, onlyErrors(string(a.Text)))
		}
		ask(t, d, "init=2026010100&variable=t-850hPa&lead=48h&lat=1&lon=1", 200, `class="map"`, "Numbers of the meteogram")
	}
}

// BenchmarkPage measures a page with map and meteogram, from the cache and drawn.
func BenchmarkPage(b *testing.B) {
	f := publish(b)
	q := url.Values{"variable": {"t-850hPa"}, "lat": {"47"}, "lon": {"8"}}
	for _, cached := range []bool{true, false} {
		b.Run(map[bool]string{true: "cached", false: "drawn"}[cached], func(b *testing.B) {
			d := newDesk(b, f)
			for b.Loop() {
				if !cached {
					d = New(f, d.reader)
				}
				if a, err := d.Answer(b.Context(), Page{}, q); err != nil || a.Faults != nil {
					b.Fatal(err, a.Faults)
				}
			}
		})
	}
}

// TestUnbroken: no line breaks within dates, times and options of commands; the rest of a text is escaped.
func TestUnbroken(t *testing.T) {
	for text, want := range map[string]string{
		"a<b of 2026-01-01 00:00Z, 2026-01-02.": `a&lt;b of <span class="whole">2026-01-01 00:00Z</span>, <span class="whole">2026-01-02</span>.`,
		"retry 2026010100 --out out-1":          `retry 2026010100 <span class="whole">--out</span> out-1`,
	} {
		if got := string(unbroken(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
