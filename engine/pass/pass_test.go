package pass

import (
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestOrder verifies that the list agrees with Order, that names are unique and
// in kebab case, that every pass has a purpose, and that a wrong order is
// detected.
func TestOrder(t *testing.T) {
	if err := CheckOrder(List); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range List {
		if names[p.Name] || p.Name != strings.ToLower(p.Name) || p.Run == nil || p.Purpose == "" {
			t.Errorf("pass %+v", p)
		}
		names[p.Name] = true
	}
	for _, o := range Order {
		if !names[o.Before] || !names[o.After] || o.Reason == "" {
			t.Errorf("order %+v names no pass of the list, or has no reason", o)
		}
		wrong := slices.Clone(List)
		at := func(n string) int { return slices.IndexFunc(wrong, func(p Pass) bool { return p.Name == n }) }
		i, j := at(o.Before), at(o.After)
		wrong[i], wrong[j] = wrong[j], wrong[i]
		if CheckOrder(wrong) == nil {
			t.Errorf("%s and %s exchanged: no error", o.Before, o.After)
		}
	}
	for i, p := range List {
		err := CheckOrder(slices.Delete(slices.Clone(List), i, i+1))
		if (err != nil) != (p.Absence == Required) {
			t.Errorf("without %s: error %v, it is %v", p.Name, err, p.Absence)
		}
	}
}

// net is a small network with skips, shared values, reshapes and constants.
func net(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(3)
	x, y := b.Input("x", graph.Shape{2, 3, 2, 6, 8}), b.Input("y", graph.Shape{2, 4, 2, 6, 8})
	conv := func(name string, v graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, v.Dim(1), 3, 3, 3}, graph.HeNormal(v.Dim(1)*27))
		c := b.Param(name+".bias", graph.Shape{out}, graph.Ones())
		return op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.Same(3, 3, 3)}), c)
	}
	e := op.ReLU(b, conv("a", x, 4))
	p := op.MaxPool(b, e, [3]int{1, 2, 2})
	u := op.Upsample(b, op.ReLU(b, conv("b", p, 5)), [3]int{1, 2, 2}, true)
	z := conv("c", op.Concat(b, 1, u, e), 4)
	z = op.Add(b, z, op.Mul(b, b.Scalar(2), b.Scalar(3)))
	z = op.Reshape(b, op.Exp(b, op.Scale(b, z, 0.1)), graph.Shape{2, 8, 1, 6, 8})
	b.Output("z", z)
	b.Loss(op.L1(b, op.Reshape(b, z, y.Shape()), y))
	b.Param("unused", graph.Shape{7}, graph.Ones())
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestFuseAndFold verifies that, after all passes, three fused convolutions
// remain, two of them with ReLU, that constants are folded, and that no
// broadcast remains.
func TestFuseAndFold(t *testing.T) {
	u := &Unit{Graph: net(t), Device: Device{ElemBytes: 4}}
	if err := Run(List, u); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	relu := 0
	for _, n := range u.Graph.Nodes {
		if n.Kind == graph.KindOp {
			count[n.Op.Name]++
			if f, ok := n.Attrs.(op.FusedConv); ok && f.ReLU {
				relu++
			}
		}
	}
	for name, want := range map[string]int{"conv3d": 0, "bias": 0, "relu": 0, "conv3d_fused": 3, "broadcast": 0, "conv3d_grad_data": 1, "conv3d_fused_grad_data": 2, "conv3d_grad_filter": 2, "conv3d_fused_grad_filter": 1, "slice": 0} {
		if count[name] != want {
			t.Errorf("%d operations %s, want %d", count[name], name, want)
		}
	}
	if relu != 2 {
		t.Errorf("%d fused ReLU, want 2", relu)
	}
	if len(u.Graph.Grads) != 6 || len(u.Memory.ZeroGrads) != 1 {
		t.Errorf("%d gradients and %d parameters without, want 6 and 1", len(u.Graph.Grads), len(u.Memory.ZeroGrads))
	}
}

// TestFuseKeepsShared verifies that a result with another reader is not fused.
func TestFuseKeepsShared(t *testing.T) {
	for _, shared := range []string{"conv3d", "bias", "none"} {
		b := graph.New(1)
		x := b.Input("x", graph.Shape{1, 2, 2, 5, 6})
		c := op.Conv3D(b, x, b.Param("w", graph.Shape{3, 2, 1, 1, 1}, graph.Ones()), op.Conv{})
		d := op.Bias(b, c, b.Param("c", graph.Shape{3}, graph.Ones()))
		b.Output("y", op.ReLU(b, d))
		switch shared {
		case "conv3d":
			b.Output("also", c)
		case "bias":
			b.Output("also", op.Exp(b, d))
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		u := &Unit{Graph: g, Options: Options{Infer: true}, Device: Device{ElemBytes: 4}}
		if err := Run(List, u); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range u.Graph.Nodes {
			if n.Kind == graph.KindOp {
				got = append(got, n.Op.Name)
			}
		}
		want := map[string]string{"conv3d": "conv3d bias relu", "bias": "conv3d_fused relu exp", "none": "conv3d_fused"}[shared]
		if strings.Join(got, " ") != want {
			t.Errorf("%s is shared: operations %v, want %s", shared, got, want)
		}
	}
}

// TestMemory simulates the sequence with a marker in every element of the
// arena: when an operation runs, all of its operands hold their own values.
func TestMemory(t *testing.T) {
	for _, infer := range []bool{false, true} {
		u := &Unit{Graph: net(t), Options: Options{Infer: infer}, Device: Device{ElemBytes: 4}}
		if err := Run(List, u); err != nil {
			t.Fatal(err)
		}
		g, m := u.Graph, u.Memory
		owner := make([]int, m.ArenaSize)
		write := func(id int) {
			p := m.Places[id]
			if p.Space != Arena {
				return
			}
			if p.Offset%align != 0 || p.Offset+p.Size > m.ArenaSize || p.Size != g.Nodes[id].Shape.Size() {
				t.Fatalf("value %d at %d of size %d in an arena of %d", id, p.Offset, p.Size, m.ArenaSize)
			}
			for i := range p.Size {
				owner[p.Offset+i] = id + 1
			}
		}
		read := func(id, by int) {
			r := g.AliasRoot(id)
			p := m.Places[id]
			if p.Space != Arena {
				return
			}
			for i := range p.Size {
				if owner[p.Offset+i] != r+1 {
					t.Fatalf("infer %v: %%%d reads %%%d, whose place holds %%%d", infer, by, r, owner[p.Offset+i]-1)
				}
			}
		}
		for _, n := range g.Nodes {
			if n.Kind != graph.KindOp {
				write(n.ID)
			}
		}
		for _, id := range u.Sequence {
			for _, in := range g.Nodes[id].In {
				read(in, id)
			}
			write(id)
		}
		for _, id := range g.Roots() {
			read(id, -1)
		}
		for _, n := range g.Nodes { // inputs and constants persist until the next run
			if n.Kind != graph.KindOp {
				read(n.ID, -1)
			}
		}
		total := 0
		for _, n := range g.Nodes {
			total += n.Shape.Size()
		}
		if m.ArenaSize > total/2 || float64(m.ArenaSize) > 1.25*float64(m.LowerBound)+1024 {
			t.Errorf("infer %v: arena of %d, %d alive at one time, %d without reuse", infer, m.ArenaSize, m.LowerBound, total)
		}
	}
}

// TestRefusals covers memory limits and graphs that no plan can execute.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		unit func(u *Unit)
		want exit.Code
	}{
		{"memory", func(u *Unit) { u.MemoryLimit = 4096 }, exit.NoDevice},
		{"no loss", func(u *Unit) { u.Graph.Loss = -1 }, exit.Usage},
		{"dtype", func(u *Unit) {
			for _, n := range u.Graph.Nodes {
				n.DType = graph.BFloat16
			}
		}, exit.NoDevice},
		{"cut", func(u *Unit) {
			u.Graph.Nodes[0].Distribution.Axes = []graph.AxisPartition{{}, {}, {}, {}, {MeshAxis: "lon", Starts: []int{0, 4}}}
		}, exit.NoDevice},
	} {
		u := &Unit{Graph: net(t), Device: Device{ElemBytes: 4}}
		c.unit(u)
		if err := Run(List, u); exit.CodeOf(err) != c.want {
			t.Errorf("%s: error %v, want code %d", c.name, err, c.want)
		}
	}
}
