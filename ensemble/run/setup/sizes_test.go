package setup

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
)

// sizesOf returns the sizes of a configuration with one halving of the resolution on a global grid of 18×36 points.
func sizesOf(sizes config.FieldSizes, whole float64) (*Sizes, *ensemble.Grid, error) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 18}
	for j := range g.NY {
		g.Lat = append(g.Lat, 85-10*float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, 10*float64(i))
	}
	c := &config.TrainConfig{}
	c.Model.Stages, c.Model.Periodic, c.Train.Train.Sizes, c.Train.Train.WholeEpochs = 1, true, sizes, whole
	s, err := NewSizes(c, g)
	return s, g, err
}

// Windows without columns have those in proportion; mixed has three quarters and half of the field.
func TestSizes(t *testing.T) {
	for _, x := range []struct {
		sizes config.FieldSizes
		want  string
	}{
		{config.FieldSizes{}, ""},
		{config.FieldSizes{Mixed: true}, "18x36 12x24 8x16"},
		{config.FieldSizes{List: []config.FieldSize{{Rows: 8}, {Rows: 12, Columns: 36}}}, "18x36 12x36 8x16"},
		{config.FieldSizes{List: []config.FieldSize{{Rows: 18, Columns: 36}}}, "18x36"},
	} {
		s, _, err := sizesOf(x.sizes, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if s != nil {
			for _, size := range s.All {
				got = append(got, size.String())
			}
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%+v: %v, want %s", x.sizes, got, x.want)
		}
	}
	_, _, err := sizesOf(config.FieldSizes{List: []config.FieldSize{{Rows: 40}}}, 0)
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "write 8x18 in place of 40x80") {
		t.Errorf("windows larger than the field: %v", err)
	}
}

// All listed sizes are drawn equally often, windows lie in the field at multiples of pooled points, and the last epochs have whole
// fields. Each point of the grid is seen about as often as its area demands: points near poles less than the mean.
func TestDrawSizes(t *testing.T) {
	const epochs, batches = 100, 100
	s, g, err := sizesOf(config.FieldSizes{List: []config.FieldSize{{Rows: 18}, {Rows: 12}, {Rows: 8}}}, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	counts, rows, columns := make([]int, 3), make([]float64, g.NY), make([]float64, g.NX)
	for epoch := range epochs {
		for b := range batches {
			i, w := s.Draw(7, epoch, epochs, b)
			if j, again := s.Draw(7, epoch, epochs, b); i != j || w != again {
				t.Fatalf("epoch %d, batch %d: %v and %v", epoch, b, w, again)
			}
			if epoch >= 75 {
				if i != 0 {
					t.Fatalf("epoch %d: size %v, want whole fields", epoch, w.Size)
				}
				continue
			}
			if counts[i]++; w.Row%2+w.Column%2 != 0 || w.Row+w.Size.Rows > g.NY || w.Column >= g.NX {
				t.Fatalf("window %+v", w)
			}
			if i < 2 {
				continue
			}
			for k := range w.Size.Rows {
				rows[w.Row+k]++
			}
			for k := range w.Size.Columns {
				columns[(w.Column+k)%g.NX]++
			}
		}
	}
	for i, n := range counts { // five standard deviations of 7500 draws
		if math.Abs(float64(n)-2500) > 5*math.Sqrt(7500*2./9) {
			t.Errorf("size %d: %d of 7500 steps", i, n)
		}
	}
	if most, least := slices.Max(columns), slices.Min(columns); least < 0.85*most {
		t.Errorf("columns are seen %g to %g times", least, most)
	}
	if pole := min(rows[0], rows[g.NY-1]); pole < 0.1*slices.Max(rows) || pole > 0.7*slices.Max(rows) {
		t.Errorf("rows are seen %v times", rows)
	}
}

// The cost is the mean over listed sizes and epochs: of equally probable areas 4/9 and 16/81 in three quarters of the epochs.
func TestCostOfSizes(t *testing.T) {
	s, _, err := sizesOf(config.FieldSizes{Mixed: true}, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Cost([]float64{1, 4. / 9, 16. / 81}, 60), 0.75*(4./9+16./81)/2+0.25; math.Abs(got-want) > 1e-12 {
		t.Errorf("cost %g, want %g", got, want)
	}
}

// Meshes that divide fields, or the batch unevenly, are refused with one that works.
func TestSizesOnMeshes(t *testing.T) {
	s := &Sizes{}
	for _, x := range []struct {
		mesh  string
		batch int
		fix   string // "" if it works
	}{
		{"data:2", 4, ""},
		{"lon:2", 4, "train.mesh: data:2"},
		{"data:2 lat:2", 4, "train.mesh: data:4"},
		{"lat:3", 4, "remove train.sizes"},
		{"data:3", 4, "train.batch_size: 6"},
	} {
		m, err := spatial.ParseMesh(x.mesh)
		if err != nil {
			t.Fatal(err)
		}
		if err = s.CheckMesh(m, x.batch); (err == nil) != (x.fix == "") || err != nil && !strings.Contains(err.Error(), x.fix) {
			t.Errorf("%s: %v, want %q", x.mesh, err, x.fix)
		}
	}
}
