package predict

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// 2 m temperature is reduced to a station below the grid's orography, by geopotential.
func TestHeightsOfStations(t *testing.T) {
	demotest.Files(t) // names the decoder
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
	c := runtest.Publishing(t, "output.stations="+list, "output.orography="+path).Output
	s, err := input.NewStationInterpolator(context.Background(), pool, c, g)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(s.HeightCorrection[0])-5.2) > 1e-3 || s.HeightCorrection[1] != 0 {
		t.Errorf("stations are warmer by %v, want 5.2 and 0", s.HeightCorrection)
	}
	ch := &productChoice{model: &model.Model{Metadata: model.Metadata{Grid: g}, Family: dist.Normal, Task: task.Task{Targets: []task.Target{{Variable: "2t"}}, Features: ensemble.Features{Axes: ensemble.Axes{Levels: []ensemble.Level{ensemble.SingleLevel}}}}}, stations: s,
		fields: []product.Field{{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Kind: product.Quantile, Below: 0.5}}, grid: g}
	out := &model.Forecast{Mean: make([]float32, g.Size()), Sigma: make([]float32, g.Size())}
	for i := range out.Mean {
		out.Mean[i], out.Sigma[i] = 280, 1
	}
	q := ch.product(ensemble.InitAt(firstOfYear), []ensemble.Member{0, 1})
	if err := ch.fill(q, out, nil); err != nil {
		t.Fatal(err)
	}
	if v := q.AtStations.Fields[0].Values; math.Abs(float64(v[0])-285.2) > 1e-3 || v[1] != 280 || q.Fields[0].Values[5] != 280 {
		t.Errorf("medians %v, on the grid %g", v, q.Fields[0].Values[5])
	}
	if err := os.WriteFile(list, []byte("id,lat,lon\na,0,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	part, _, err := g.Crop(ensemble.Area{North: 70, West: 20, South: 30, East: 60})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := input.NewStationInterpolator(context.Background(), pool, runtest.Publishing(t, "output.stations="+list).Output, part); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a station outside: %v", err)
	}
	if _, err := input.NewStationInterpolator(context.Background(), pool, c, part); exit.CodeOf(err) == exit.OK {
		t.Error("heights of another grid were taken")
	}
}
