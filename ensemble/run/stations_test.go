package run

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Products at stations are those of the interpolated distribution, in NetCDF and in CSV.
func TestPredictStations(t *testing.T) {
	list := filepath.Join(t.TempDir(), "stations.csv")
	if err := os.WriteFile(list, []byte("id,name,lat,lon,altitude\nA,Alpha,45,90,120\nB,,-30.5,-10.25,\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := predictOptions(t, t.TempDir())
	o.Input, o.Formats = o.Input[:1], nil
	o.Publish = publishing(t, "products=[mean, spread, quantiles, probabilities, members]", "quantiles=[0.9]", "probabilities=[t<275]", "output.stations="+list)
	r, err := Predict(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(r.Outputs[0])
	names, _ := filepath.Glob(filepath.Join(dir, "*_stations.*"))
	if len(names) != 2 || len(r.Outputs) != 3 {
		t.Fatalf("files %v", r.Outputs)
	}
	whole := fieldsOf(t, filepath.Join(dir, "*_048h.nc"))
	at := fieldsOf(t, filepath.Join(dir, "*_stations.nc"))
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
				want = dist.Normal.Quantile([]float64{float64(mean[i]), float64(sigma[i])}, k.Below)
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
	v, err := Verify(context.Background(), VerifyOptions{Forecast: []string{r.Outputs[0], names[1]}, Analysis: smallData(t).Analyses, RunDir: o.RunDir})
	if err != nil || len(v.Scores.Scores) == 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if r, err = Predict(context.Background(), o); err != nil || r.Already != 1 {
		t.Errorf("again: %+v, %v", r, err)
	}
	if err := os.WriteFile(list, []byte("id,lat,lon\nA,45,90\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = Predict(context.Background(), o); err != nil || r.Already != 0 {
		t.Errorf("other stations: %+v, %v", r, err)
	}
}

// Two metre temperature comes down to a station below the grid's ground, by geopotential.
func TestHeightsOfStations(t *testing.T) {
	smallData(t) // names the decoder
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	firstOfYear := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := &ensemble.Grid{NX: 36, NY: 19, Source: ensemble.SourceOrder{}}
	for i := range g.NX {
		g.Lon = append(g.Lon, 10*float64(i))
	}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-10*float64(j))
	}
	heights := make([]float32, g.Size())
	for i := range heights {
		heights[i] = 1000 * ensemble.StandardGravity
	}
	dir := t.TempDir()
	p := &product.Product{Init: ensemble.InitAt(firstOfYear), Grid: g, Metadata: product.Metadata{Members: []ensemble.Member{0}},
		Fields: []product.Field{{Variable: "z", Level: ensemble.Level{Kind: ensemble.Surface}, Kind: product.Member, Values: heights}}}
	path := filepath.Join(dir, "z.grib2")
	if err := product.WriteGRIB2(context.Background(), pool, path, p, product.Options{}); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "s.csv")
	if err := os.WriteFile(list, []byte("id,lat,lon,altitude\nvalley,47,11,200\nunknown,10,10,\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := publishing(t, "output.stations="+list, "output.orography="+path).Output
	s, err := sitesOf(context.Background(), pool, c, g)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(s.warmer[0])-5.2) > 1e-3 || s.warmer[1] != 0 {
		t.Errorf("stations are warmer by %v, want 5.2 and 0", s.warmer)
	}
	ch := &choice{model: &model.Model{Grid: g, Family: dist.Normal, Task: model.Task{Targets: []model.Target{{Variable: "2t"}}, Features: ensemble.Features{Axes: ensemble.Axes{Levels: []ensemble.Level{ensemble.SingleLevel}}}}}, stations: s,
		fields: []product.Field{{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Kind: product.Quantile, Below: 0.5}}, grid: g}
	out := &model.Forecast{Mean: make([]float32, g.Size()), Sigma: make([]float32, g.Size())}
	for i := range out.Mean {
		out.Mean[i], out.Sigma[i] = 280, 1
	}
	q := ch.product(ensemble.InitAt(firstOfYear), []ensemble.Member{0, 1})
	if err := ch.fill(q, out, nil); err != nil {
		t.Fatal(err)
	}
	if v := q.Stations.Fields[0].Values; math.Abs(float64(v[0])-285.2) > 1e-3 || v[1] != 280 || q.Fields[0].Values[5] != 280 {
		t.Errorf("medians %v, on the grid %g", v, q.Fields[0].Values[5])
	}
	if err := os.WriteFile(list, []byte("id,lat,lon\na,0,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	part, _, err := g.Crop(ensemble.Area{North: 70, West: 20, South: 30, East: 60})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sitesOf(context.Background(), pool, publishing(t, "output.stations="+list).Output, part); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a station outside: %v", err)
	}
	if _, err := sitesOf(context.Background(), pool, c, part); exit.CodeOf(err) == exit.OK {
		t.Error("heights of another grid were taken")
	}
}
