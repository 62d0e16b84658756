package setup

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
)

// Batches have the channels of all members, also if fewer are present.
func TestMemoryForMembers(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	c := demotest.Config(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, runtest.MemberInput()...)
	k, spec := PlaceholderTask(TaskOf(c)), SpecOf(c)
	o := network.Options(1, "")
	o.Store, o.Mode = engine.NewStore(), engine.Train
	net, err := spec.Compile(&k, grid, 2, 1, true, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer net.Plan.Close()
	if n, want := len(net.Batch.Members), 2*3*2*3*2*2*grid.Size(); n != want { // samples, members, kinds, leads, variables, levels
		t.Errorf("%d values of members, want %d", n, want)
	}
	fewer, err := spec.WithMemberCount(2).Compile(&k, grid, 2, 1, true, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fewer.Plan.Close()
	if n, want := len(fewer.Plan.Input("members")), 2*2*2*3*2*2*grid.Size(); n != want {
		t.Errorf("two members have %d values, want %d", n, want)
	}
}
