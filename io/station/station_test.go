package station

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stations")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same two stations in all forms.
func TestRead(t *testing.T) {
	for name, text := range map[string]string{
		"commas":     "id,name,lat,lon,altitude\n10488,Dresden,51.13,13.75,230\nX1,,-30,-10,\n",
		"semicolons": "\ufeffStation_ID;Longitude;Latitude;Elevation;Name\n# of a network\n10488;13.75;51.13;230;Dresden\nX1;-10;-30;;\n",
		"GeoJSON": `{"type":"FeatureCollection","features":[
			{"type":"Feature","id":10488,"properties":{"name":"Dresden","elevation":230},"geometry":{"type":"Point","coordinates":[13.75,51.13]}},
			{"type":"Feature","properties":{"id":"X1"},"geometry":{"type":"Point","coordinates":[-10,-30]}}]}`,
		"GeoJSON with heights": `{"type":"FeatureCollection","features":[
			{"type":"Feature","properties":{"wmo":10488,"name":"Dresden"},"geometry":{"type":"Point","coordinates":[13.75,51.13,230]}},
			{"type":"Feature","id":"X1","geometry":{"type":"Point","coordinates":[-10,-30]}}]}`,
	} {
		got, err := Read(write(t, text))
		if err != nil || len(got) != 2 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if s := got[0]; s.ID != "10488" || s.Name != "Dresden" || s.Lat != 51.13 || s.Lon != 13.75 || s.Altitude != 230 {
			t.Errorf("%s: %+v", name, s)
		}
		if s := got[1]; s.ID != "X1" || s.Lat != -30 || s.Lon != -10 || !math.IsNaN(s.Altitude) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "it is empty",
		"id,lat,lon\n":                   "it is empty",
		"id,lat\na,1\n":                  "no column lon",
		"id,lat,lon\na,1,x\n":            "not a number",
		"id,lat,lon\na,1,2\na,3,4\n":     "listed twice",
		"id,lat,lon\na,100,2\n":          "latitude 100",
		"id,lat,lon\n,1,2\n":             "no id",
		"id,lat,lon,alt\na,1,2,99999\n":  "altitude 99999",
		"id,lat,latitude,lon\na,1,2,3\n": "two columns",
		"id,lat,lon\na,1\n":              "wrong number of fields",
		`{"type":"Feature"}`:             "not a FeatureCollection",
		`{"type":"FeatureCollection","features":[{"geometry":{"type":"Polygon"}}]}`: "not a point",
	} {
		if _, err := Read(write(t, text)); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want exit 65 with %q", text, err, want)
		}
	}
	if _, err := Read("nowhere.csv"); exit.CodeOf(err) == exit.OK {
		t.Error("a missing file was read")
	}
}
