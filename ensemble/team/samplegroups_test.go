package team

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Groups are the ranks with equal coordinates on the axis data, wherever it is in the mesh.
func TestSplitSamples(t *testing.T) {
	for mesh, want := range map[string][]string{ // by rank: group and place in it
		"data:2":             {"0.0", "1.0"},
		"data:2 lat:2":       {"0.0", "0.1", "1.0", "1.1"},
		"lat:2 data:2":       {"0.0", "1.0", "0.1", "1.1"},
		"lat:2 data:2 lon:2": {"0.0", "0.1", "1.0", "1.1", "0.2", "0.3", "1.2", "1.3"},
	} {
		m, err := spatial.ParseMesh(mesh)
		if err != nil {
			t.Fatal(err)
		}
		err = comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			all := &Team{Comm: c, Mesh: m}
			g, err := all.SplitSamples()
			if err != nil {
				return err
			}
			place := g.Group.Rank()
			if got := fmt.Sprintf("%d.%d", g.Index(), place); got != want[c.Rank()] || g.IsLeader() != (place == 0) || g.Count() != 2 || g.Across.Size() != 2 {
				return fmt.Errorf("%s: rank %d is %s of %d groups, want %s", mesh, c.Rank(), got, g.Count(), want[c.Rank()])
			}
			if g.Own.Size() != m.Size()/2 || g.Own != nil && (g.Own.Mesh.Size() != g.Own.Size() || g.Own.Mesh.HasDataRanks()) {
				return fmt.Errorf("%s: a group of %d ranks on mesh %v", mesh, g.Own.Size(), g.Own)
			}
			sum := []float64{float64(place)}
			if err := comm.AllReduce(g.Across, sum, comm.Auto); err != nil || sum[0] != float64(2*place) {
				return fmt.Errorf("%s: the ranks across groups have the sum %g of places %d: %v", mesh, sum[0], place, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	var none *SampleGroups
	if none.Count() != 1 || none.Index() != 0 {
		t.Error("no groups are not one group")
	}
}

// Groups of ranks that read the same samples: on a mesh, and in all stages of a pipeline, whose ranks of a stage are consecutive.
func TestDataGroup(t *testing.T) {
	mesh, err := spatial.ParseMesh("data:2 lat:2")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := spatial.ParseMesh("data:4 lat:2") // two stages
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		team *Team
		want []int
	}{
		{"one rank", nil, []int{0}},
		{"all samples", &Team{Mesh: mesh}, []int{0, 0, 0, 0}},
		{"mesh", &Team{Mesh: mesh, DataGroups: 2}, []int{0, 0, 1, 1}},
		{"pipeline", &Team{Mesh: stages, DataGroups: 2, Pipeline: &Pipeline{Mesh: mesh}}, []int{0, 0, 1, 1, 0, 0, 1, 1}},
	} {
		for rank, want := range c.want {
			if got := c.team.DataGroup(rank); got != want {
				t.Errorf("%s: rank %d is in group %d, want %d", c.name, rank, got, want)
			}
		}
	}
}
