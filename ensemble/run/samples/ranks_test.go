package samples

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
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

// An error of the callback of one rank ends the pass of all ranks with that error after the same sample, the last one included,
// although the callback exchanges messages. A request to stop that all ranks have agreed on keeps its type.
func TestCallbackFailsOnOneRank(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	whole, err := ReadData(context.Background(), c, f.GRIB2[:3], f.Analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	samples := len(whole.Train.Inits)
	if samples < 2 {
		t.Fatalf("%d samples", samples)
	}
	stop := &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
	for _, at := range []int{0, samples - 1} {
		calls, errs := make([]int, 3), make([]error, 3)
		_ = comm.Run(3, comm.Parallel, func(g *comm.Comm) error {
			ranks, rank := team.New(g), g.Rank()
			errs[rank] = whole.Train.Each(context.Background(), ranks, func(i int, _ *ensemble.Forecast, _ []*ensemble.Analysis) error {
				calls[rank]++
				if _, err := ranks.Sum(1); err != nil {
					return err
				}
				if rank == 1 && i == at {
					return &exit.Error{Code: exit.BadData, What: "injected"}
				}
				return nil
			})
			return nil
		})
		for rank, err := range errs {
			if e := (*exit.Error)(nil); !errors.As(err, &e) || e.Code != exit.BadData || e.What != "injected" || !team.IsAgreed(err) || calls[rank] != at+1 {
				t.Errorf("sample %d: rank %d ends with %v after %d calls", at, rank, err, calls[rank])
			}
		}
	}
	_ = comm.Run(2, comm.Parallel, func(g *comm.Comm) error {
		ranks := team.New(g)
		err := whole.Train.Each(context.Background(), ranks, func(int, *ensemble.Forecast, []*ensemble.Analysis) error {
			return request{ranks.AgreeOnError(stop)}
		})
		if r := (request{}); !errors.As(err, &r) {
			t.Errorf("rank %d ends with %v, which is no request", g.Rank(), err)
		}
		return nil
	})
}

// request wraps an error that all ranks have.
type request struct{ error }

func (r request) Unwrap() error { return r.error }
