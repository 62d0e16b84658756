package scoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A map example survives a round trip; one that does not match its grid is refused.
func TestMapExampleRoundTrip(t *testing.T) {
	dir := t.TempDir()
	e := &MapExample{Init: ensemble.Init{}, Grid: &ensemble.Grid{NX: 3, NY: 2, Lat: []float64{1, 0}, Lon: []float64{0, 1, 2}}, Used: 2,
		Fields: []MapField{{Variable: "t", Kind: ShowMean, Values: []float32{1, 2, 3, 4, 5, 6}}}}
	runtest.Must(t, e.Save(dir))
	got, err := LoadExample(dir)
	runtest.Must(t, err)
	if got.Used != 2 || got.Fields[0].Values[5] != 6 {
		t.Errorf("%+v", got)
	}
	path := filepath.Join(dir, exampleFile)
	text, err := os.ReadFile(path)
	runtest.Must(t, err)
	for old, other := range map[string]string{`\"nx\":3`: `\"nx\":9`, `\"fields\":[`: `\"fiel4s\":[`, `\"grid\":{`: `\"gri4\":{`} {
		bad := strings.Replace(string(text), old, other, 1)
		if bad == string(text) {
			t.Fatalf("no %q in %.300q", old, text)
		}
		runtest.Must(t, os.WriteFile(path, []byte(bad), 0o644))
		if _, err := LoadExample(dir); exit.CodeOf(err) != exit.BadData {
			t.Errorf("with %q: %v", other, err)
		}
	}
}
