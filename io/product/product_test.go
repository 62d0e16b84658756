package product_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// testInit and testLead are the times of all test products.
var (
	testInit = ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	testLead = ensemble.Lead(48 * time.Hour)
)

// globe is a lat-lon grid of 13 rows by 36 columns, 15 by 10 degrees.
func globe(src ensemble.SourceOrder) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 13, Source: src}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-15*float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, 10*float64(i))
	}
	return g
}

// Two marks that no reflection or rotation of the globe maps to themselves: 90 E 45
// N, and 10 W 30 S.
const (
	markNE, markSW = 25.0, 50.0 // added to the field there
	neLat, neLon   = 45.0, 90.0
	swLat, swLon   = -30.0, 350.0
	atNE, atSW     = 3*36 + 9, 8*36 + 35
	missingAt      = 0*36 + 1 // 90 N 10 E
)

// marked returns a field of base that increases with the point, with both marks.
func marked(n int, base float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(base + float64(i)/float64(n))
	}
	v[atNE] += markNE
	v[atSW] += markSW
	return v
}

// testProduct has mean and spread of t on two levels, of gh on one of them, and of
// 2t.
func testProduct(g *ensemble.Grid) *product.Product {
	p := &product.Product{Init: testInit, Grid: g, Metadata: product.Metadata{
		Title: "Post-processed ensemble forecast", Institution: "test office", Source: "ensemble, 3-D U-Net", References: "doi:10.1098/rsta.2020.0092",
		License: "CC BY 4.0", ForecastType: "post-processed ensemble forecast", Command: "ensemble predict --init 2026010100", Version: "0.1.0",
		Members: []ensemble.Member{0, 1, 2, 3, 4}, DDOF: 1, Control: "include", ModelChecksum: "sha256:00ff",
		Inputs: []manifest.File{{Path: "in.grib2", Size: 12, SHA256: "ab12"}},
	}}
	add := func(variable string, l ensemble.Level, kind product.Kind, base float64) {
		v := marked(g.Size(), base)
		v[missingAt] = float32(math.NaN())
		p.Fields = append(p.Fields, product.Field{Variable: variable, Level: l, Lead: testLead, Kind: kind, Values: v})
	}
	t2m := ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}
	for _, k := range []product.Kind{product.Mean, product.Spread} {
		scale := map[product.Kind]float64{product.Mean: 1, product.Spread: 0.01}[k]
		add("t", ensemble.PressureLevel(500), k, scale*240)
		add("t", ensemble.PressureLevel(850), k, scale*250)
		add("gh", ensemble.PressureLevel(850), k, scale*1400)
		add("2t", t2m, k, scale*280)
	}
	return p
}

func TestWritersMakeFiles(t *testing.T) {
	enc := encoder(t)
	dir := t.TempDir()
	p := testProduct(globe(ensemble.SourceOrder{}))
	if err := product.WriteNetCDF(context.Background(), enc, filepath.Join(dir, "a.nc"), p, product.Options{}); err != nil {
		t.Fatal(err)
	}
	q := p.Select(func(f product.Field) bool { return f.Variable == "t" && f.Kind == product.Spread })
	if err := product.WriteGRIB2(context.Background(), enc, filepath.Join(dir, "a.grib2"), q, product.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, magic := range map[string]string{"a.nc": "\x89HDF", "a.grib2": "GRIB"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(b), magic) {
			t.Errorf("%s: %v, starts with %q, want %q", name, err, b[:min(4, len(b))], magic)
		}
	}
}

// FuzzManifest: an accepted manifest lists only files below its directory, and
// stays the same when written and read again.
func FuzzManifest(f *testing.F) {
	whole, err := json.Marshal((&product.Publication{}).Manifest(testProduct(globe(ensemble.SourceOrder{}))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"schema":"ensemble.product/1","outputs":[{"path":"a/b","size":-1}],"members_used":[-1],"init":"","inputs":null}`))
	f.Add([]byte(`{"schema":"ensemble.product/1","outputs":[{"path":"a/../../b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := product.ParseManifest(text, "manifest.json")
		if err != nil {
			if exit.CodeOf(err) != exit.BadData {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, o := range m.Outputs {
			if o.Path != filepath.ToSlash(filepath.Clean(filepath.FromSlash(o.Path))) || !filepath.IsLocal(o.Path) || o.Path == "." || o.Size < 0 || strings.ContainsFunc(o.SHA256, unicode.IsControl) {
				t.Errorf("%q names %+v", text, o)
			}
		}
		for _, top := range m.TopLevelOutputs() {
			if strings.Contains(top, "/") || !filepath.IsLocal(top) || top == "." {
				t.Errorf("%q has %q at its top", text, top)
			}
		}
		manifest.Sums(m.Outputs)
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		n, err := product.ParseManifest(again, "manifest.json")
		if err != nil || !reflect.DeepEqual(m, n) {
			t.Errorf("%q: read again %+v, %v, first %+v", text, n, err, m)
		}
	})
}
