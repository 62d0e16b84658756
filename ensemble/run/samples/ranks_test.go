package samples

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Every rank gets its slab only; together they have what one rank reads, bit by bit, from NetCDF and GRIB.
func TestRanksReadTheirSlabs(t *testing.T) {
	f := demotest.Files(t)
	for _, kind := range []struct {
		name  string
		files []string
	}{{"GRIB", f.GRIB2[:3]}, {"NetCDF", f.NetCDF[:3]}} {
		c := demotest.Config(t, f)
		read := func(ranks *team.Team) (*Data, error) {
			return ReadData(context.Background(), c, kind.files, f.Analyses, ranks)
		}
		whole, err := read(nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := func(d *Data) [][]float32 {
			var all [][]float32
			if err := d.Train.Each(context.Background(), nil, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
				if i < 2 {
					all = append(all, fc.Values, a[0].Values)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			return all
		}
		for _, mesh := range []string{"lat:2", "lon:3", "level:2 lon:2", "data:2 lat:2"} {
			m, err := spatial.ParseMesh(mesh)
			if err != nil {
				t.Fatal(err)
			}
			space := m.Size() / max(1, m.Coordinate(m.Size()-1, "data")+1)
			c.Train.Train.Mesh = mesh
			if err := comm.Run(m.Size(), comm.Parallel, func(g *comm.Comm) error {
				ranks := team.New(g)
				d, err := read(ranks)
				if err != nil {
					return err
				}
				// Each rank reads its share of the files, whatever the format and the mesh.
				read, all := d.Source.Counts().FileSystem.Bytes, whole.Source.Counts().FileSystem.Bytes
				if n := float64(read) * float64(m.Size()) / float64(all); n > 1.1 || n < 0.9 {
					return fmt.Errorf("rank %d has read %d of %d bytes", g.Rank(), read, all)
				}
				for i, part := range fields(d) {
					want := fields(whole)[i]
					if n := len(part) * space; n > len(want)*3/2 {
						return fmt.Errorf("rank %d has %d of %d values", g.Rank(), len(part), len(want))
					}
					got, err := team.GatherFields(ranks, part, len(want)/(len(d.Axes.Levels)*d.Grid.Size()))
					if err != nil {
						return err
					}
					if g.Rank() == 0 && !slices.Equal(got, want) {
						return fmt.Errorf("%s, field %d: the slabs are not the whole", mesh, i)
					}
				}
				return nil
			}); err != nil {
				t.Errorf("%s: %v", kind.name, err)
			}
		}
	}
}
