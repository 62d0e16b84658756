package notebooks

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// TestRawFields: members, their mean and spread, and the analysis are those that another program reads, with units and
// coordinates.
func TestRawFields(t *testing.T) {
	d := data(t, Cached())
	c := d.Init("2001-02-19T00Z")
	members, err := c.Members("t850", "48h")
	if err != nil || len(members) != 4 {
		t.Fatalf("%d members, %v", len(members), err)
	}
	mean, spread := c.Mean("t850", "48h"), c.Spread("t@850hPa", "48h")
	for k := range mean.Float32s() {
		var sum, squares float64
		for _, m := range members {
			sum += float64(m.Values[k])
			squares += float64(m.Values[k]) * float64(m.Values[k])
		}
		sd := math.Sqrt((squares - sum*sum/4) / 3)
		if math.Abs(float64(mean.Values[k])-sum/4) > 1e-4 || math.Abs(float64(spread.Values[k])-sd) > 1e-3 { // of values near 280 in float32 and of squares in float64
			t.Fatalf("point %d: mean %g, spread %g; want %g, %g", k, mean.Values[k], spread.Values[k], sum/4, sd)
		}
	}
	if one := c.Member(2, "t850", "48h"); one.Err() != nil || one.Values[77] != members[2].Values[77] || one.Unit != "K" || one.Key.Member != 2 || one.Shape() != [2]int{32, 64} {
		t.Errorf("member 2: %v %+v", one.Err(), one.Key)
	}
	analysis := c.Analysis("t850", "48h")
	const script = `import xarray, sys
f = xarray.open_dataset(sys.argv[1])
level = [n for n in f["t"].dims if n not in ("time", "lat", "lon", "latitude", "longitude")][0]
at = 85000 if f[level].max() > 2000 else 850
x = f["t"].sel({"time": "2001-02-21T00", level: at}).values.squeeze()
print("%.3f %.3f" % (x[0, 0], x[20, 11]))`
	out, err := exec.Command(testdata.Python(t, "xarray"), "-c", script, d.analyses[0]).CombinedOutput()
	if analysis.Err() != nil || err != nil || strings.TrimSpace(string(out)) != fmt.Sprintf("%.3f %.3f", analysis.Values[0], analysis.Values[20*64+11]) {
		t.Errorf("the analysis: %v, %g; netCDF4 reads %s (%v)", analysis.Err(), analysis.Values[0], out, err)
	}
	failed := mean.Minus(analysis)
	if failed.Err() != nil || failed.Values[99] != mean.Values[99]-analysis.Values[99] || !failed.difference {
		t.Errorf("the error of the mean: %v", failed.Err())
	}
	if got := mean.At(mean.Lat()[3]+1, mean.Lon()[5]-1); got != float64(mean.Values[3*64+5]) {
		t.Errorf("the value near point 3, 5 is %g, want %g", got, mean.Values[3*64+5])
	}
}

// TestRawErrors: what the files do not have is refused with the nearest that they have.
func TestRawErrors(t *testing.T) {
	d := data(t, Cached())
	c := d.Init("first")
	alone, err := Open(d.files[0], In(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	other := &Field{Field: &ensemble.Field{Unit: "m", Grid: c.Mean("t850", "48h").Grid}, What: "height"}
	for _, x := range []struct {
		name string
		err  error
		want exit.Code
		says string
	}{
		{"another level", c.Member(0, "t700", "48h").Err(), exit.Usage, `the nearest is "t850"`},
		{"a mistyped name", c.Member(0, "tt850", "48h").Err(), exit.Usage, `the nearest is "t850"`},
		{"another variable", c.Mean("t2m", "48h").Err(), exit.Usage, "choose one of"},
		{"several levels", c.Spread("t", "48h").Err(), exit.Usage, "several levels"},
		{"another lead", c.Member(0, "t850", "40h").Err(), exit.Usage, `the nearest is "48h"`},
		{"no lead", c.Mean("t850", "48").Err(), exit.Usage, `write it as "48h"`},
		{"another member", c.Member(12, "t850", "48h").Err(), exit.Usage, "the nearest is 3"},
		{"another date", d.Init("2001-01-09T00Z").Member(0, "t850", "48h").Err(), exit.NotYet, "the nearest is 2001-01-08T00:00Z"},
		{"no analyses", alone.Init("first").Analysis("t850", "48h").Err(), exit.NotYet, "ens.Analyses"},
		{"other units", c.Mean("t850", "48h").Minus(other).Err(), exit.Usage, "K is not m"},
		{"maps of other units", Maps(Globe, c.Mean("t850", "48h"), other).Err(), exit.Usage, "K and m"},
		{"no maps", Maps(Globe).Err(), exit.Usage, "at least one"},
		{"a meteogram outside", c.Meteogram("t850", 95, 0).Err(), exit.Usage, "latitude"},
		{"a format", c.Mean("t850", "48h").Map(Europe).Write(filepath.Join(t.TempDir(), "a.gif")), exit.Usage, ".png, .pdf"},
	} {
		if exit.CodeOf(x.err) != x.want || !strings.Contains(fmt.Sprint(x.err), x.says) {
			t.Errorf("%s: %v; want exit %d with %q", x.name, x.err, x.want, x.says)
		}
	}
}
