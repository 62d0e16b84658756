package serve

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stacDocument is what tests read of a document of the catalogue.
type stacDocument struct {
	Type, ID, Description, License, Collection string
	Version                                    string   `json:"stac_version"`
	Extensions                                 []string `json:"stac_extensions"`
	Links                                      []struct{ Rel, Href, Type string }
	Extent                                     struct {
		Spatial  struct{ BBox [][]float64 }
		Temporal struct{ Interval [][]*string }
	}
	BBox     []float64
	Geometry *struct {
		Type        string
		Coordinates json.RawMessage
	}
	Properties map[string]any
	Assets     map[string]struct {
		Href, Type string
		Roles      []string
		Checksum   string `json:"file:checksum"`
		Size       int    `json:"file:size"`
		Horizon    string `json:"forecast:horizon"`
	}
}

// stacOf reads a document.
func stacOf(t *testing.T, at, path string) (d stacDocument) {
	t.Helper()
	resp, body := ask(t, "GET", at+path)
	if err := json.Unmarshal([]byte(body), &d); err != nil || resp.StatusCode != 200 || d.Version != "1.0.0" || d.ID == "" || d.Type != "Feature" && d.Description == "" {
		t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
	}
	if want := map[bool]string{true: "application/geo+json", false: "application/json"}[d.Type == "Feature"]; resp.Header.Get("Content-Type") != want {
		t.Errorf("%s: %s, want %s", path, resp.Header.Get("Content-Type"), want)
	}
	return d
}

// resolved is the path of a relative link in a document.
func resolved(t *testing.T, document, href string) string {
	t.Helper()
	u, err := (&url.URL{Path: document}).Parse(href)
	if err != nil || !strings.HasPrefix(href, ".") {
		t.Fatalf("%s: %q is not relative: %v", document, href, err)
	}
	return u.Path
}

// TestCatalogue: the catalogue leads to an item for each initialisation, whose assets are its files with their checksums.
func TestCatalogue(t *testing.T) {
	root, _, _ := forecastSite(t)
	put(t, filepath.Join(root, "2026020100", "unfinished.nc"), secret)
	at, _, _ := answering(t, root, nil)
	items := map[string]stacDocument{}
	var walk func(path string, depth int)
	walk = func(path string, depth int) {
		d := stacOf(t, at, path)
		if d.Type == "Feature" {
			items[d.ID] = d
		}
		for _, l := range d.Links {
			l.Href = resolved(t, path, l.Href)
			switch {
			case l.Rel == "root" && l.Href != "/stac/catalog.json":
				t.Errorf("%s: root is %s", path, l.Href)
			case l.Rel == "collection" || l.Rel == "parent" || l.Rel == "root":
				stacOf(t, at, l.Href)
			case (l.Rel == "child" || l.Rel == "item") && depth < 5:
				walk(l.Href, depth+1)
			}
		}
	}
	walk("/stac/catalog.json", 0)
	if len(items) != 2 {
		t.Fatalf("items %v", items)
	}
	c := stacOf(t, at, "/stac/products/collection.json")
	if c.Type != "Collection" || c.License == "" || !slices.Equal(c.Extent.Spatial.BBox[0], []float64{-180, -90, 180, 90}) || *c.Extent.Temporal.Interval[0][0] != "2025-12-31T12:00:00Z" || c.Extent.Temporal.Interval[0][1] != nil {
		t.Errorf("the collection: %+v", c)
	}
	i := items["2025123112"]
	if i.Collection != c.ID || !slices.Equal(i.BBox, []float64{170, 50, -170, 60}) || i.Geometry == nil || i.Geometry.Type != "MultiPolygon" || len(i.Extensions) != 2 {
		t.Errorf("the item: %+v", i)
	}
	for key, want := range map[string]any{"datetime": nil, "start_datetime": "2026-01-01T12:00:00Z", "end_datetime": "2026-01-02T12:00:00Z", "forecast:reference_datetime": "2025-12-31T12:00:00Z", "forecast:horizon": "PT48H"} {
		if got, ok := i.Properties[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	for name, horizon := range map[string]string{"2025123112_024h.nc": "PT24H", "2025123112_048h.nc": "PT48H"} {
		a := i.Assets[name]
		resp, body := ask(t, "GET", at+resolved(t, "/stac/products/2025123112.json", a.Href))
		if resp.StatusCode != 200 || a.Type != resp.Header.Get("Content-Type") || a.Checksum != "1220"+sumOf(body) || a.Size != len(body) || a.Horizon != horizon || !slices.Equal(a.Roles, []string{"data"}) {
			t.Errorf("%s: %+v, the file has %s, %d bytes, SHA-256 %s", name, a, resp.Header.Get("Content-Type"), len(body), sumOf(body))
		}
	}
	if len(i.Assets) != 3 || i.Assets["manifest.json"].Href == "" {
		t.Errorf("assets %v", i.Assets)
	}
	for _, path := range []string{"/stac/", "/stac/products/2026-02/catalog.json", "/stac/products/2026020100.json", "/stac/products/2026-13/catalog.json", "/stac/products/x.json", "/stac/catalog.html"} {
		if resp, body := ask(t, "GET", at+path); resp.StatusCode != 404 || strings.Contains(body, secret) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}

	// Products whose fields cannot be read have no place; their files are assets all the same.
	if err := os.Truncate(filepath.Join(root, "2025123112", "2025123112_024h.nc"), 10); err != nil {
		t.Fatal(err)
	}
	other, _, _ := answering(t, root, nil)
	if i := stacOf(t, other, "/stac/products/2025123112.json"); i.Geometry != nil || i.BBox != nil || len(i.Assets) != 3 {
		t.Errorf("without readable fields: %+v", i)
	}
}
