package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// gatherHaloAttrs holds the attributes of the operation: those of gather.
type gatherHaloAttrs struct{ gatherAttrs }

// gatherHalo gathers the halo of a field without the rank's own shard. A
// convolution with a kernel for separate halos reads both buffers, which saves the
// copy of the shard that gather makes.
//
// Shape: x the rank's shard [N C D H W] → y as op.Halo lays out a halo.
// Missing: elements beyond the ends of the field are zero.
// Memory: the halo only, O(H+W) per channel and level instead of O(H·W).
var gatherHalo = &graph.Op{
	Name:   "gather_halo",
	Doc:    "The halo around this rank's shard of a field, as rows and columns; zeros beyond the ends of the field.",
	Source: "Dryden et al. 2019, arXiv:1903.06681, section III",
	NoGrad: noGrad,
	Shape: func(in []graph.Shape, attrs any) (graph.Shape, error) {
		a := attrs.(gatherHaloAttrs)
		f, ok := a.haloFrame(a.Rank)
		own := a.Mesh.Owned(a.From, a.Redistribution.Shape, a.Rank).Shape()
		if len(in) != 1 || !in[0].Equal(own) || !ok {
			return nil, fmt.Errorf("operands %v, want the shard %v with a halo: %w", in, own, graph.ErrShape)
		}
		return f.Shape(own), nil
	},
	Window:    func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:     noFLOPs,
	Bytes:     func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace:   neverInPlace,
	Ordered:   true,
	AnyLayout: true,
}

// gatherHaloKernel prepares the operation on a rank of c.
func gatherHaloKernel(c *comm.Comm, b *buffers, q backend.Request) (backend.Kernel, error) {
	return exchangeKernel(c, b, q, q.Attrs.(gatherHaloAttrs).gatherAttrs, NewHaloExchange)
}

// haloFusion is the state of the pass fuse-halos.
type haloFusion struct {
	u     *pass.Unit
	fused map[int]op.HaloOp // by node: the fused form of an operation
	uses  map[int]bool      // gathers that become halos only
	// accepts reports whether the device has a kernel for a fused form of an operation, with the
	// shapes of its operands and halos.
	accepts func(n *graph.Node, a op.HaloOp, in []graph.Shape) bool
	layout  graph.Layout // of fields that are read with their halo
}

// fuseHalos lets operations read the halo of a field and the shard from separate
// buffers, where the device has kernels for that. Only the halo is then copied.
func fuseHalos(u *pass.Unit) error {
	if u.Layouts == nil {
		return nil
	}
	return fuseHalosWhere(u, graph.Blocked, func(n *graph.Node, a op.HaloOp, in []graph.Shape) bool {
		want := backend.LayoutOption{Out: n.Layout}
		for _, id := range n.In {
			want.In = append(want.In, u.Graph.Nodes[id].Layout)
		}
		for range a.Operands {
			want.In = append(want.In, graph.Blocked)
		}
		ways := u.Layouts.LayoutOptions(op.Find("with_halo"), a, in, n.Shape)
		return slices.ContainsFunc(ways, func(w backend.LayoutOption) bool { return w.Name() == want.Name() })
	})
}

// fuseHalosWhere is fuseHalos for fields in a layout and the operations that accepts selects.
func fuseHalosWhere(u *pass.Unit, layout graph.Layout, accepts func(n *graph.Node, a op.HaloOp, in []graph.Shape) bool) error {
	f := findHaloFusion(u, layout, accepts)
	source, frames := map[int]graph.Value{}, map[int]graph.Value{} // of gathers
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if f.uses[n.ID] {
			source[n.ID], frames[n.ID] = in[0], b.Node(gatherHalo, gatherHaloAttrs{n.Attrs.(gatherAttrs)}, in[0])
			frames[n.ID].SetLayout(layout)
		}
		a, ok := f.fused[n.ID]
		if !ok {
			return graph.Value{}
		}
		for _, i := range a.Operands {
			id := n.In[i]
			in[i] = source[id]
			in = append(in, frames[id])
		}
		v := op.WithHalo(b, a, in...)
		v.SetLayout(n.Layout)
		return v
	})
	if err == nil {
		u.Graph = g
	}
	return err
}

// findHaloFusion finds the operations that fuseHalosWhere changes.
func findHaloFusion(u *pass.Unit, layout graph.Layout, accepts func(n *graph.Node, a op.HaloOp, in []graph.Shape) bool) *haloFusion {
	f := &haloFusion{u: u, fused: map[int]op.HaloOp{}, uses: map[int]bool{}, accepts: accepts, layout: layout}
	for _, n := range u.Graph.Nodes {
		if n.Kind != graph.KindOp {
			continue
		}
		if a, ok := f.framed(n); ok {
			f.fused[n.ID] = a
		}
	}
	f.dropPartial()
	return f
}

// dropPartial keeps the fused form only where all readers of a gathered value have
// one. Otherwise the value would be gathered twice. It repeats until nothing
// changes, because dropping one fused operation may leave another value with an
// unfused reader.
func (f *haloFusion) dropPartial() {
	for again := true; again; {
		again = false
		clear(f.uses)
		for id, a := range f.fused {
			for _, i := range a.Operands {
				f.uses[f.u.Graph.Nodes[id].In[i]] = true
			}
		}
		for _, n := range f.u.Graph.Nodes {
			if _, ok := f.fused[n.ID]; ok {
				continue
			}
			for _, id := range n.In {
				if !f.uses[id] {
					continue
				}
				for reader, a := range f.fused {
					if slices.ContainsFunc(a.Operands, func(i int) bool { return f.u.Graph.Nodes[reader].In[i] == id }) {
						delete(f.fused, reader)
						again = true
					}
				}
			}
		}
	}
}

// framed returns the form of an operation that reads halos separately. ok is true
// if all its gathered operands have the same halo widths and the device has a
// kernel for the layouts.
func (f *haloFusion) framed(n *graph.Node) (op.HaloOp, bool) {
	g := f.u.Graph
	a := op.HaloOp{Op: n.Op, Attrs: n.Attrs}
	shapes := g.InShapes(n)
	var frames []graph.Shape
	for i, id := range n.In {
		x := g.Nodes[id]
		if x.Kind != graph.KindOp || x.Op != gather || x.Layout != f.layout {
			continue
		}
		p := x.Attrs.(gatherAttrs)
		around, ok := p.haloFrame(p.Rank)
		if !ok || len(a.Operands) > 0 && around != a.Halo {
			return a, false
		}
		a.Operands, a.Halo = append(a.Operands, i), around
		shapes[i] = g.Nodes[x.In[0]].Shape
		frames = append(frames, around.Shape(shapes[i]))
	}
	if len(a.Operands) == 0 {
		return a, false
	}
	return a, f.accepts(n, a, append(shapes, frames...))
}
