package jobs

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Products at stations are those of the interpolated distribution, in NetCDF and CSV.
func TestPredictStations(t *testing.T) {
	list := filepath.Join(t.TempDir(), "stations.csv")
	if err := os.WriteFile(list, []byte("id,name,lat,lon,altitude\nA,Alpha,45,90,120\nB,,-30.5,-10.25,\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := predictOptions(t, t.TempDir())
	o.Input, o.Formats = o.Input[:1], nil
	o.Publish = runtest.Publishing(t, "products=[mean, spread, quantiles, probabilities, members]", "quantiles=[0.9]", "probabilities=[t<275]", "output.stations="+list)
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(r.Outputs[0])
	names, _ := filepath.Glob(filepath.Join(dir, "*_stations.*"))
	if len(names) != 2 || len(r.Outputs) != 3 {
		t.Fatalf("files %v", r.Outputs)
	}
	whole := runtest.FieldsOf(t, filepath.Join(dir, "*_048h.nc"))
	at := runtest.FieldsOf(t, filepath.Join(dir, "*_stations.nc"))
	if len(at) != len(whole) || len(at) != 2+1+1+3 {
		t.Errorf("%d fields at stations, %d on the grid", len(at), len(whole))
	}
	var mean, sigma []float32
	for k, f := range at {
		switch k.Product {
		case ensemble.EnsembleMean:
			mean = f.Values
		case ensemble.Spread:
			sigma = f.Values
		}
	}
	for k, f := range at {
		if f.Grid.Kind != ensemble.Points || f.Grid.Size() != 2 || f.Grid.Lat[1] != -30.5 || f.Grid.Lon[1] != 349.75 {
			t.Errorf("%s stands on %s", k, f.Grid)
		}
		g := whole[k]
		if g == nil {
			t.Errorf("%s is at stations only", k)
			continue
		}
		weights, err := regrid.New(g.Grid, f.Grid, regrid.Options{})
		if err != nil {
			t.Fatal(err)
		}
		interpolated := make([]float32, 2)
		regrid.Apply(weights, interpolated, g.Values)
		for i, v := range interpolated {
			want := float64(v)
			switch k.Product {
			case ensemble.Quantile:
				want = dist.Normal.Quantile([]float64{float64(mean[i]), float64(sigma[i])}, k.QuantileProbability)
			case ensemble.Probability:
				want = dist.Normal.Below([]float64{float64(mean[i]), float64(sigma[i])}, k.Event.Upper)
			case ensemble.MemberField:
				continue // coupled by the interpolated members
			}
			if math.Abs(float64(f.Values[i])-want) > 1e-6*math.Max(1, math.Abs(want)) {
				t.Errorf("%s at station %d is %g, want %g", k, i, f.Values[i], want)
			}
		}
	}
	file, err := os.Open(filepath.Join(dir, filepath.Base(names[0])))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 1+2*len(at) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		if row[0] == "B" && row[10] == "mean" && (row[11] != fmt.Sprint(mean[1]) || row[4] != "" || row[12] != "K" || row[9] != "850hPa" || row[6] != "48") {
			t.Errorf("row %v, mean %g", row, mean[1])
		}
	}
	v, err := verify.Run(context.Background(), verify.Options{Forecast: []string{r.Outputs[0], names[1]}, Analysis: demotest.Files(t).Analyses, RunDir: o.RunDir})
	if err != nil || len(v.Scores.Scores) == 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if r, err = predict.Run(context.Background(), o); err != nil || r.Existing != 1 {
		t.Errorf("again: %+v, %v", r, err)
	}
	if err := os.WriteFile(list, []byte("id,lat,lon\nA,45,90\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = predict.Run(context.Background(), o); err != nil || r.Existing != 0 {
		t.Errorf("other stations: %+v, %v", r, err)
	}
}
