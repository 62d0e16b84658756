package team

import (
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// SampleGroups are the groups of ranks of a team that compute the same samples of a batch. They have the same coordinate on
// the axis "data" of the mesh. A group can train on its samples without the others.
type SampleGroups struct {
	Own    *Team      // the group of this rank, on the mesh without the axis; nil for a single rank
	Group  *comm.Comm // ranks of Own, also a single one
	Across *comm.Comm // the rank in the place of this one in each group, by group
}

// SplitSamples returns the groups of a team with a mesh. All ranks call it in step; it sends no messages.
//
// Errors: too many groups in a job.
func (t *Team) SplitSamples() (*SampleGroups, error) {
	var rest spatial.Mesh
	var names []string
	for _, a := range t.Mesh {
		if a.Name != spatial.DataAxis {
			rest, names = append(rest, a), append(names, a.Name)
		}
	}
	me := t.Comm.Rank()
	group, err := t.Comm.Group(t.Mesh.Group(me, names))
	if err != nil {
		return nil, err
	}
	across, err := t.Comm.Group(t.Mesh.Group(me, []string{spatial.DataAxis}))
	if err != nil {
		return nil, err
	}
	g := &SampleGroups{Own: New(group), Group: group, Across: across}
	if g.Own != nil {
		g.Own.Mesh = rest
	}
	return g, nil
}

// Count returns the number of groups; 1 for nil.
func (g *SampleGroups) Count() int {
	if g == nil {
		return 1
	}
	return g.Across.Size()
}

// Index returns the number of this rank's group, which is its coordinate on the axis "data"; 0 for nil.
func (g *SampleGroups) Index() int {
	if g == nil {
		return 0
	}
	return g.Across.Rank()
}

// IsLeader reports whether this rank is the first of its group.
func (g *SampleGroups) IsLeader() bool { return g.Group.Rank() == 0 }
