package jobs

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
)

// At stations on grid points, neighbourhood probabilities equal those computed from published probabilities
// and members.
func TestPredictNeighbourhoods(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	o.Input, o.Formats = o.Input[:1], nil
	o.Publish = runtest.Publishing(t, "products=[probabilities, members]", "probabilities=[t>270]")
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var probability []float32
	var events [][]float32
	var grid *ensemble.Grid
	for k, f := range runtest.FieldsOf(t, r.Outputs[0]) {
		if grid = f.Grid; k.Product == ensemble.Probability {
			probability = f.Values
			continue
		}
		happens := make([]float32, len(f.Values))
		for p, v := range f.Values {
			if v > 270 {
				happens[p] = 1
			}
		}
		events = append(events, happens)
	}
	const radius = 1500e3
	d, err := neighbourhood.New(grid, radius)
	if err != nil {
		t.Fatal(err)
	}
	mean, _ := d.Mean(probability)
	anywhere, _ := d.MaximumProbability(events)

	places := []int{grid.NX * 3, grid.NX*6 + 5, grid.NX*7 + 11}
	list := "id,lat,lon\n"
	for _, p := range places {
		list += fmt.Sprintf("%d,%g,%g\n", p, grid.LatAt(p/grid.NX, p%grid.NX), grid.LonAt(p/grid.NX, p%grid.NX))
	}
	path := filepath.Join(t.TempDir(), "stations.csv")
	if err := os.WriteFile(path, []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Out = t.TempDir()
	o.Publish = runtest.Publishing(t, "products=[neighbourhood, neighbourhood_any]", "probabilities=[t>270]", "neighbourhood.radius=[1500km, 40km]", "output.stations="+path, "output.interpolation=nearest")
	if r, err = predict.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(filepath.Dir(r.Outputs[0]), "*_stations.csv"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	text, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(rows) != 1+4*len(places) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		p, _ := strconv.Atoi(row[0])
		got, err := strconv.ParseFloat(row[11], 64)
		if err != nil {
			t.Fatal(err)
		}
		var want float32
		switch row[10] {
		case "neighbourhood above 270 within 1500 km":
			want = mean[0][p]
		case "neighbourhood_any above 270 within 1500 km":
			want = anywhere[p]
		case "neighbourhood above 270 within 40 km": // no other point is so near
			want = probability[p]
		case "neighbourhood_any above 270 within 40 km":
			for _, e := range events {
				want += e[p] / float32(len(events))
			}
		default:
			t.Errorf("statistic %q", row[10])
		}
		if math.Abs(got-float64(want)) > 1e-6 {
			t.Errorf("%s at point %d: %g, want %g", row[10], p, got, want)
		}
	}
}

func TestNeighbourhoodKeys(t *testing.T) {
	for _, c := range []struct {
		set  []string
		text string
	}{
		{[]string{"products=[neighbourhood]", "probabilities=[t>270]"}, "without a radius"},
		{[]string{"products=[neighbourhood_any]", "neighbourhood.radius=[50km]"}, "without an event"},
		{[]string{"neighbourhood.radius=[50km]"}, "without an event"},
		{[]string{"products=[mean]", "neighbourhood.radius=[50km]"}, "neighbourhood.radius without neighbourhood products"},
		{[]string{"probabilities=[t>270]", "neighbourhood.radius=[50km]", "output.formats=[grib2]"}, "cannot be written as GRIB2"},
		{[]string{"probabilities=[t>270]", "neighbourhood.radius=[50]"}, "write 50km"},
		{[]string{"probabilities=[t>270]", "neighbourhood.radius=[0km]"}, "more than 0"},
		{[]string{"probabilities=[t>270]", "neighbourhood.radius=[50km, 50000m]"}, "listed twice"},
	} {
		if _, err := config.LoadPredict(config.Sources{Set: c.set}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}
