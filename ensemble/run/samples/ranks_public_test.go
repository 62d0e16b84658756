package samples_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// firstFields are the forecast and the analysis of the first training sample of each rank.
type firstFields [4][2][]float32

// TestRanksShareSamples checks that ranks of one process with the same shard read it into the same memory, with the values that
// ranks of processes of their own read.
func TestRanksShareSamples(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "train.mesh=data:2 lat:2")
	forecasts, analyses, err := samples.ArchiveFiles(c)
	runtest.Must(t, err)
	errFound := errors.New("found")
	read := func(processes int) (all firstFields) {
		var mu sync.Mutex
		runtest.Must(t, comm.Run(processes, comm.Parallel, func(p *comm.Comm) error {
			return comm.HostRanks(p, len(all), func(g *comm.Comm) error {
				d, err := samples.ReadData(context.Background(), c, forecasts, analyses, team.New(g))
				if err != nil {
					return err
				}
				err = d.Train.Each(context.Background(), nil, func(_ int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
					mu.Lock()
					defer mu.Unlock()
					all[g.Rank()] = [2][]float32{fc.Values, a[0].Values}
					return errFound
				})
				if !errors.Is(err, errFound) {
					return fmt.Errorf("no training samples: %w", err)
				}
				return nil
			})
		}))
		return all
	}
	alone := read(4)
	for processes, holders := range map[int][]int{1: {0, 1, 0, 1}, 2: {0, 1, 2, 3}} {
		all := read(processes)
		for rank, x := range all {
			for kind, values := range x {
				if !runtest.EqualBits(values, alone[rank][kind]) {
					t.Errorf("%d processes, rank %d: other values than in a process of its own", processes, rank)
				}
				if holder := slices.IndexFunc(all[:], func(y [2][]float32) bool { return &y[kind][0] == &values[0] }); holder != holders[rank] {
					t.Errorf("%d processes, rank %d has the memory of rank %d, want that of %d", processes, rank, holder, holders[rank])
				}
			}
		}
	}
}
