package train

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Of 14 samples in batches of 4 the last batch has two, which belong to the first two of four groups.
func TestOwnSamples(t *testing.T) {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		tr := &trainer{groups: &team.SampleGroups{Across: c}, current: &currentNetwork{cfg: config.Training{BatchSize: 4, Accumulate: 2}},
			job: job{base: config.Training{BatchSize: 4}, trainings: []setup.NetworkTraining{{Samples: make([]int, 14)}}}}
		first := c.Rank() < 2
		for _, k := range []struct {
			from, batches int
			want          map[bool]float64 // by whether the group is one of the first two
		}{
			{0, 1, map[bool]float64{true: 1, false: 1}},
			{3, 1, map[bool]float64{true: 2, false: 0}},
			{0, 2, map[bool]float64{true: 1, false: 1}},
			{2, 2, map[bool]float64{true: 4 / 3.0, false: 2 / 3.0}},
		} {
			if got := tr.ownSamples(k.from, k.batches); got != k.want[first] {
				return fmt.Errorf("group %d has %g samples in %d batches from %d, want %g", c.Rank(), got, k.batches, k.from, k.want[first])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Runs of all groups, steps and batches of a step have random numbers of their own; without groups those of a step are numbered
// in a row.
func TestRunNumbers(t *testing.T) {
	runs := make([]map[uint64]bool, 3)
	err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		tr := &trainer{groups: &team.SampleGroups{Across: c}, current: &currentNetwork{cfg: config.Training{Accumulate: 2}}}
		runs[c.Rank()] = map[uint64]bool{}
		for step := range uint64(5) {
			for batch := range 2 {
				runs[c.Rank()][tr.runNumber(step, batch)] = true
			}
		}
		return nil
	})
	all := map[uint64]bool{}
	for _, own := range runs {
		for n := range own {
			all[n] = true
		}
	}
	if err != nil || len(all) != 3*5*2 {
		t.Errorf("%d numbers of 30 runs: %v", len(all), err)
	}
	alone := &trainer{current: &currentNetwork{cfg: config.Training{Accumulate: 2}}}
	if n := alone.runNumber(3, 1); n != 7 {
		t.Errorf("batch 1 of step 3 has number %d", n)
	}
}
