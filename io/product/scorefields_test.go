package product_test

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// scoreFile writes scores at two leads and two levels; one combination is missing.
func scoreFile(t *testing.T) string {
	t.Helper()
	g := globe(ensemble.SourceOrder{ScanningMode: 0})
	s := &product.ScoreFields{Grid: g, First: ensemble.InitAt(time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)), Last: ensemble.InitAt(time.Date(2021, 12, 31, 0, 0, 0, 0, time.UTC)),
		Metadata: product.Metadata{Title: "Scores", Command: "ensemble verify", Version: "test"}}
	for i, at := range []struct{ lead, hPa int }{{24, 850}, {24, 500}, {48, 850}} {
		values := make([]float32, g.Size())
		for p := range values {
			values[p] = float32(i)
		}
		values[17] = float32(math.NaN())
		f := product.ScoreField{Variable: "t", Level: ensemble.Level{Kind: ensemble.Pressure, Value: float64(100 * at.hPa)}, Lead: ensemble.Lead(time.Duration(at.lead) * time.Hour), Unit: "K",
			Score: "crps", LongName: "CRPS of network", Method: "mean", Values: values}
		s.Fields = append(s.Fields, f)
		f.Score, f.LongName, f.Unit, f.Method, f.Flags = "significant", "field significance", "1", "", []string{"not_significant", "better", "worse"}
		s.Fields = append(s.Fields, f)
		f.Score, f.Flags, f.Integers = "n", nil, true
		s.Fields = append(s.Fields, f)
	}
	path := filepath.Join(t.TempDir(), "scores.nc")
	if err := product.WriteScoreFields(context.Background(), encoder(t), path, s, product.Options{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScoreFieldsInXarray: xarray opens scores by place and lead without a warning.
func TestScoreFieldsInXarray(t *testing.T) {
	needPython(t)
	path := scoreFile(t)
	v := xarrayView(t, path)
	x := v.Vars["t_crps"]
	if strings.Join(x.Dims, " ") != "forecast_period pressure latitude longitude" || v.Dims["forecast_period"] != 2 || v.Dims["pressure"] != 2 || x.Attrs["cell_methods"] != "forecast_reference_time: mean" || x.Attrs["units"] != "K" {
		t.Errorf("%+v of %+v", x, v.Dims)
	}
	// The missing combination of lead and level, and one point of the others.
	n := v.Dims["latitude"] * v.Dims["longitude"]
	if x.Nulls != n+3 || x.Sum != float64(3*(n-1)) {
		t.Errorf("%d nulls, sum %g; want %d and %d", x.Nulls, x.Sum, n+3, 3*(n-1))
	}
	if lead := v.Coords["forecast_period"]; len(lead) != 2 || lead[0] != 24*3600 && lead[0] != 24*3600*1e9 {
		t.Errorf("leads %v", lead)
	}
	if m := v.Vars["t_significant"]; m.Attrs["flag_meanings"] != "not_significant better worse" || m.Nulls != n+3 {
		t.Errorf("mask %+v", m)
	}
	if c := v.Vars["t_n"]; c.Attrs["standard_name"] != "number_of_observations" {
		t.Errorf("counts %+v", c)
	}
}

// TestScoreFieldsInCDO: CDO reads leads as times and levels without a warning.
func TestScoreFieldsInCDO(t *testing.T) {
	cdo := tool(t, "cdo")
	path := scoreFile(t)
	if got := strings.Fields(run(t, cdo, "-s", "ntime", path)); len(got) != 1 || got[0] != "2" {
		t.Errorf("times %q", got)
	}
	if got := strings.Fields(run(t, cdo, "-s", "showlevel", path)); len(got) != 6 || got[0] != "850" || got[1] != "500" {
		t.Errorf("levels %q", got)
	}
	if got := strings.Fields(run(t, cdo, "-s", "showname", path)); strings.Join(got, " ") != "t_crps t_significant t_n" {
		t.Errorf("names %q", got)
	}
}
