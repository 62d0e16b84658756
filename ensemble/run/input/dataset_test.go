package input

import (
	"context"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// A selection cropped to a part of the input's grid reads that part; other grids are not accepted.
func TestSelectionOnPartOfTheGrid(t *testing.T) {
	f := demotest.Files(t)
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	in, err := fio.Open(context.Background(), f.GRIB2[19:20], fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cat := in.Catalogue()
	axes := ensemble.Axes{Variables: []string{"t"}, Levels: []ensemble.Level{ensemble.PressureLevel(500)}, Leads: cat.Leads()[:2]}
	read := func(part *ensemble.Window) (*Selection, *ensemble.Forecast) {
		s, err := SelectForecasts(in, RequiredFields{Axes: axes, Members: cat.Members()[:3], OfTraining: true}, Destination{}, StatisticRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if part != nil && !s.CropTo(s.Grid.Subgrid(*part)) {
			t.Fatalf("no place for %v of %v", part, s.Grid)
		}
		fc, _, err := s.Read(context.Background(), s.Inits[:1], nil)
		if err != nil {
			t.Fatal(err)
		}
		return s, fc[0]
	}
	all, whole := read(nil)
	w := ensemble.Window{Rows: [2]int{3, all.Grid.NY - 1}, Cols: [2]int{5, all.Grid.NX - 2}}
	s, part := read(&w)
	for lead := range axes.Leads {
		for m := range part.Members {
			want := ensemble.CropField(whole.Field(lead, m, 0, 0), all.Grid, w)
			if got := part.Field(lead, m, 0, 0); !slices.Equal(got, want) {
				t.Fatalf("lead %d, member %d differ", lead, m)
			}
		}
	}
	if got := s.InputWindow(ensemble.Window{Rows: [2]int{1, 2}, Cols: [2]int{0, 4}}); got != (ensemble.Window{Rows: [2]int{4, 5}, Cols: [2]int{5, 9}}) {
		t.Errorf("window %v of the input", got)
	}
	other := *all.Grid.Subgrid(w)
	other.Lat = append([]float64{}, other.Lat...)
	other.Lat[1] += 0.5
	if all.CropTo(&other) {
		t.Error("another grid is taken for a part")
	}
}
