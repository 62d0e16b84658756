package spatial

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Kronecker factors of the patches read the halos that the gradients of the filters read: they cause no exchange.
func TestPatchesShareHalos(t *testing.T) {
	gram, filter := op.Find("patch_gram"), op.Find("conv3d_grad_filter")
	for _, n := range networks {
		if n.name != "U-Net, periodic" && n.name != "stride 2" && n.name != "dilation 2" {
			continue
		}
		gathers := map[int]int{}
		for _, maxSide := range []int{0, 300} {
			u := &pass.Unit{Graph: n.graph(t), Device: pass.Device{ElemBytes: 4}}
			u.MaxFactorSide = maxSide
			for _, p := range pass.List[:gradientsAt(pass.List)+1] {
				if err := p.Run(u); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Shard(u.Graph, Mesh{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			nodes, read := s.Local.Nodes, 0
			for _, v := range nodes {
				switch {
				case v.Kind != graph.KindOp:
				case v.Op == gather:
					gathers[maxSide]++
				case v.Op == gram && v.In[0] != v.In[1]:
					read++
					if !slices.ContainsFunc(nodes, func(d *graph.Node) bool { return d.Op == filter && d.In[0] == v.In[0] }) {
						t.Errorf("%s: a factor reads %%%d, which no gradient of a filter reads", n.name, v.In[0])
					}
				}
			}
			if maxSide > 0 && read == 0 {
				t.Errorf("%s has no factor of patches", n.name)
			}
		}
		if gathers[300] != gathers[0] {
			t.Errorf("%s: %d exchanges with factors, %d without", n.name, gathers[300], gathers[0])
		}
	}
}
