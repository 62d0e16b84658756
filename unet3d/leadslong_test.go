//go:build long

package unet3d

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestLongMemoryOfMoreLeads: with the smallest possible memory, where activations of leads are
// recomputed, five leads need little more than three: only input, output and state of each lead are
// kept.
func TestLongMemoryOfMoreLeads(t *testing.T) {
	least := map[int]int64{}
	for _, leads := range []int{3, 5} {
		net := RecurrentUNet{UNet: UNet{Base: 16, Stages: 2, Periodic: true}, Leads: leads}
		all, small := inLeastMemory(t, func() *graph.Graph {
			g, err := lossOf(3, graph.Shape{leads, 14, 1, 64, 128}, net.Build)
			if err != nil {
				t.Fatal(err)
			}
			return g
		})
		least[leads] = small.ArenaBytes() + small.ScratchBytes()
		t.Logf("%d leads: arena and scratch of %d bytes, %d at least", leads, all.ArenaBytes()+all.ScratchBytes(), least[leads])
		all.Close()
		small.Close()
	}
	if ratio := float64(least[5]) / float64(least[3]); ratio > 1.3 {
		t.Errorf("five leads need %.2f times the memory of three, want at most 1.3", ratio)
	}
}

// TestLongLeadsInLessMemory: the other networks over leads, too, give the same bits with the
// smallest possible memory.
func TestLongLeadsInLessMemory(t *testing.T) {
	for name, build := range map[string]func(*graph.Builder, graph.Value) graph.Value{
		"factorised": leadsNets(3)["factorised, conditioned"].Build, "leads as depth": leadsNets(3)["leads as depth"].Build, "along axes": smallAxial(3).Build,
		"members and leads": PoET{Attention: Attention{SetSize: 2}, Leads: Attention{SetSize: 3}, Widths: []int{4, 8}}.Build,
	} {
		all, least := inLeastMemory(t, func() *graph.Graph {
			g, err := lossOf(3, graph.Shape{6, 3, 2, 8, 12}, build)
			if err != nil {
				t.Fatal(err)
			}
			return g
		})
		want := trained(t, all)
		for i, got := range trained(t, least) {
			if !sameBits(got, want[i]) {
				t.Errorf("%s: in %d bytes of %d part %d differs", name, least.ArenaBytes(), all.ArenaBytes(), i)
			}
		}
		if least.ArenaBytes() >= all.ArenaBytes() {
			t.Errorf("%s: the least arena has %d bytes, that of all results %d", name, least.ArenaBytes(), all.ArenaBytes())
		}
		all.Close()
		least.Close()
	}
}
