package unet3d

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// leadsNet is a network whose rows are leads.
type leadsNet interface {
	Build(b *graph.Builder, x graph.Value) graph.Value
	Parameters(channels int) int
}

// smallUNet is the U-Net of the tests.
func smallUNet(stages int) UNet { return UNet{Base: 2, Stages: stages, Periodic: true} }

// leadsNets lists the networks over leads, for a number of leads.
func leadsNets(leads int) map[string]leadsNet {
	film := FiLM{Conditions: 1, Hidden: 3}
	return map[string]leadsNet{
		"convlstm":                RecurrentUNet{UNet: smallUNet(2), Leads: leads},
		"convlstm, both ways":     RecurrentUNet{UNet: smallUNet(2), Leads: leads, Hidden: 2, Bidirectional: true, Condition: film},
		"convgru, two stages":     RecurrentUNet{UNet: smallUNet(2), Cell: ConvGRU, Leads: leads, CellStages: 2},
		"convgru, truncated":      RecurrentUNet{UNet: smallUNet(2), Cell: ConvGRU, Leads: leads, Truncate: 2},
		"leads as depth":          TimeUNet{UNet: smallUNet(2), Leads: leads},
		"factorised":              TimeUNet{UNet: smallUNet(2), Leads: leads, Factorised: true},
		"factorised, conditioned": TimeUNet{UNet: smallUNet(2), Leads: leads, Factorised: true, Condition: film},
	}
}

// TestLeadNetworksEqualPyTorch: with PyTorch's weights the networks over leads give PyTorch's
// output, and its gradient of mean y².
func TestLeadNetworksEqualPyTorch(t *testing.T) {
	film := func(n int) FiLM { return FiLM{Conditions: n, Hidden: 3} }
	golden := func(stages int) UNet { return UNet{Base: 1, Stages: stages, Periodic: true} }
	for _, c := range []struct {
		file string
		net  interface {
			Build(b *graph.Builder, x graph.Value) graph.Value
		}
	}{
		{"axial", AxialTransformer{Leads: 3, Width: 4, Heads: 2, Window: 3, Periodic: true, Condition: film(1)}},
		{"recurrent_lstm", RecurrentUNet{UNet: golden(2), Leads: 3, Hidden: 2, Bidirectional: true, Truncate: 2, Condition: film(1)}},
		{"recurrent_gru", RecurrentUNet{UNet: golden(2), Cell: ConvGRU, Leads: 3, Hidden: 2, CellStages: 2}},
		{"time_depth", TimeUNet{UNet: golden(1), Leads: 4}},
		{"time_factorised", TimeUNet{UNet: golden(2), Leads: 3, Factorised: true, Condition: film(2)}},
	} {
		for _, backend := range backends(t) {
			t.Run(c.file+" on "+backend, func(t *testing.T) { goldenGradient(t, c.file+".safetensors", backend, c.net.Build) })
		}
	}
}

// TestSameParametersForAnyLeads: Parameters counts the trained values. Their names, shapes and
// number are the same for two to six leads.
func TestSameParametersForAnyLeads(t *testing.T) {
	of := func(leads int, name string) (out []string, n int) {
		net := leadsNets(leads)[name]
		b := graph.New(1)
		net.Build(b, b.Input("x", graph.Shape{2 * leads, 3, 2, 8, 12}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, nd := range g.Nodes {
			if nd.Kind == graph.KindParam {
				out, n = append(out, fmt.Sprint(nd.Name, nd.Shape)), n+nd.Shape.Size()
			}
		}
		slices.Sort(out)
		return out, n
	}
	for name, net := range leadsNets(2) {
		want, n := of(2, name)
		if n != net.Parameters(3) {
			t.Errorf("%s: %d parameters, by formula %d", name, n, net.Parameters(3))
		}
		for leads := 3; leads <= 6; leads++ {
			if got, _ := of(leads, name); !slices.Equal(got, want) {
				t.Errorf("%s: with %d leads the parameters are %v, with 2 %v", name, leads, got, want)
			}
		}
	}
	if got := (RecurrentUNet{UNet: UNet{Base: 32}, Leads: 3}).Parameters(14); got != (UNet{}).Parameters(14)+4*112*(27*(224+112)+1)+113*224 {
		t.Errorf("ConvLSTM U-Net at base 32: %d parameters", got)
	}
}

// TestPoETOfLeads: with attention over leads only, no member affects another; with attention over
// both, all rows of a sample do. The network is equivariant under permutation of members, up to
// rounding, and has the same parameters for any number of members and leads.
func TestPoETOfLeads(t *testing.T) {
	const members, leads = 3, 4
	names := func(members, leads int) (out []string) {
		b := graph.New(1)
		PoET{Attention: Attention{SetSize: members}, Leads: Attention{SetSize: leads}, Condition: FiLM{Conditions: 1}}.Build(b, b.Input("x", graph.Shape{members * leads, 3, 1, 24, 36}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, nd := range g.Nodes {
			if nd.Kind == graph.KindParam {
				out = append(out, fmt.Sprint(nd.Name, nd.Shape))
			}
		}
		return out
	}
	if !slices.Equal(names(2, 5), names(7, 2)) {
		t.Error("the parameters depend on how many members and leads there are")
	}
	for _, backend := range backends(t) {
		for _, over := range []int{0, members} {
			net := PoET{Attention: Attention{SetSize: over}, Leads: Attention{SetSize: leads}, Widths: []int{4, 8}, Periodic: true, Condition: FiLM{Conditions: 1}}
			n := newMembersNet(t, backend, graph.Shape{2 * members * leads, 3, 1, 9, 12}, net.Build)
			before := n.run(t)
			row := len(before) / (2 * members * leads)
			n.plan.Input("x")[n.size/2] += 1 // of lead 0 of member 0
			after := n.run(t)
			for r := range 2 * members * leads {
				differs := !slices.Equal(before[r*row:(r+1)*row], after[r*row:(r+1)*row])
				if want := r < leads || over > 0 && r < members*leads; differs != want {
					t.Errorf("%d members on %s: row %d changes: %v, want %v", over, backend, r, differs, want)
				}
			}
			n.plan.Input("x")[n.size/2] -= 1
			for lead := range leads { // members 0 and 2
				n.exchange(lead, 2*leads+lead)
			}
			other := n.run(t)
			for r := range members * leads {
				from := r
				if m := r / leads; m != 1 {
					from = (2-m)*leads + r%leads
				}
				for p := range row {
					d := math.Abs(float64(other[r*row+p] - before[from*row+p]))
					if d > 2e-6*(1+norm(before)/math.Sqrt(float64(len(before)))) || d > 0 && over == 0 {
						t.Fatalf("%d members on %s: row %d of other members is off by %.2g", over, backend, r, d)
					}
				}
			}
		}
	}
	t.Run("gradient", func(t *testing.T) {
		gradientOf(t, graph.Shape{4, 2, 1, 6, 9}, PoET{Attention: Attention{SetSize: 2}, Leads: Attention{SetSize: 2}, Widths: []int{3, 4}, Condition: FiLM{Conditions: 1}}.Build)
	})
}

// TestLeadNetworksGradients compares the gradients of all parameters with directional differences
// of the loss in float64. A truncated network intentionally has other gradients, and is compared
// with PyTorch.
func TestLeadNetworksGradients(t *testing.T) {
	for name, net := range leadsNets(3) {
		if name != "convgru, truncated" {
			t.Run(name, func(t *testing.T) { gradientOf(t, graph.Shape{3, 3, 2, 4, 8}, net.Build) })
		}
	}
}

// gradientOf compares the gradient of mean y², with random parameters, with central differences.
func gradientOf(t *testing.T, x graph.Shape, build func(*graph.Builder, graph.Value) graph.Value) {
	t.Helper()
	b := graph.New(1)
	b.Loss(op.Mean(b, op.Square(b, build(b, b.Input("x", x)))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	drawParameters(t, plan)
	for i := range plan.Input("x") {
		plan.Input("x")[i] = float32(rng.Normal(7, uint64(i)))
	}
	loss := func() float64 {
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return plan.Loss()
	}
	loss()
	params, grads := plan.Store().Params(), slices.Clone(plan.Store().Grads())
	at := slices.Clone(params)
	for try := range uint64(3) {
		const h = 1e-5 // few ReLU change sign within it
		var want, moved float64
		for _, s := range []float64{1, -1} {
			for i := range params {
				params[i] = at[i] + float32(s*h*rng.Normal(11+try, uint64(i)))
				want += s * float64(params[i]) * float64(grads[i]) // of the step after rounding to float32
			}
			moved += s * loss()
		}
		copy(params, at)
		if math.Abs(moved-want) > 2e-3*(math.Abs(want)+h*norm(grads)) {
			t.Errorf("direction %d: the loss moves by %.6g, the gradient says %.6g", try, moved, want)
		}
	}
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// drawParameters sets random parameters: those initialised with 0 would hide their input.
func drawParameters(t *testing.T, plan *engine.Plan) {
	t.Helper()
	for i, e := range plan.Store().Entries() {
		w := make([]float32, e.Shape.Size())
		fan := math.Sqrt(float64(len(w) / e.Shape[0]))
		for k := range w {
			w[k] = float32(rng.Normal(rng.Key(3, uint64(i)), uint64(k)) / fan)
		}
		if err := plan.Store().Set(e.Name, w); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeadsCouple: a lead affects the later ones through a cell, all others with two cells, its
// neighbours through filters over leads, and never another member.
func TestLeadsCouple(t *testing.T) {
	const leads, changed = 6, 2
	for name, reaches := range map[string]func(lead int) bool{
		"convlstm":            func(lead int) bool { return lead >= changed },
		"convlstm, both ways": func(int) bool { return true },
		"convgru, two stages": func(lead int) bool { return lead >= changed },
		"leads as depth":      func(int) bool { return true }, // layer by layer
		"factorised":          func(int) bool { return true },
	} {
		for _, backend := range backends(t) {
			n := newMembersNet(t, backend, graph.Shape{2 * leads, 3, 1, 8, 12}, leadsNets(leads)[name].Build)
			before := n.run(t)
			for i := range n.size {
				n.plan.Input("x")[changed*n.size+i] += 1
			}
			after, row := n.run(t), len(before)/(2*leads)
			for r := range 2 * leads {
				differs := !slices.Equal(before[r*row:(r+1)*row], after[r*row:(r+1)*row])
				if want := r < leads && reaches(r); differs != want {
					t.Errorf("%s on %s: row %d changes with lead %d of the first member: %v, want %v", name, backend, r, changed, differs, want)
				}
			}
		}
	}
}

// TestTruncation: with truncation after k leads gradients reach k leads and no more; the output
// does not change.
func TestTruncation(t *testing.T) {
	const leads = 5
	run := func(truncate int) (y []float32, reaches []bool) {
		net := RecurrentUNet{UNet: smallUNet(1), Leads: leads, Truncate: truncate}
		b := graph.New(1)
		x := b.Param("x", graph.Shape{leads, 2, 1, 4, 6}, graph.Normal(1))
		out := net.Build(b, x)
		b.Output("y", out)
		b.Loss(op.Mean(b, op.Square(b, op.Slice(b, out, 0, leads-1, leads))))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		for i, e := range plan.Store().Entries() {
			if e.Name != "x" {
				w := make([]float32, e.Shape.Size())
				for k := range w {
					w[k] = float32(0.2 * rng.Normal(rng.Key(3, uint64(i)), uint64(k)))
				}
				if err := plan.Store().Set(e.Name, w); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		d, _ := plan.Store().Grad("x")
		for part := range slices.Chunk(d, len(d)/leads) {
			reaches = append(reaches, norm(part) > 0)
		}
		return slices.Clone(plan.Output("y")), reaches
	}
	all, reaches := run(0)
	if !slices.Equal(reaches, []bool{true, true, true, true, true}) {
		t.Errorf("without truncation the last lead's loss reaches %v", reaches)
	}
	y, reaches := run(2) // stops before leads 2 and 4
	if !slices.Equal(reaches, []bool{false, false, false, false, true}) {
		t.Errorf("truncated after 2 leads the last lead's loss reaches %v", reaches)
	}
	if !slices.Equal(y, all) {
		t.Error("truncation changes the forward pass")
	}
	if _, reaches := run(3); !slices.Equal(reaches, []bool{false, false, false, true, true}) {
		t.Errorf("truncated after 3 leads the last lead's loss reaches %v", reaches)
	}
}

// TestLeadNetworksStartAsUNets: an untrained network with cells and conditions equals the U-Net of
// each lead.
func TestLeadNetworksStartAsUNets(t *testing.T) {
	const leads = 3
	run := func(build func(*graph.Builder, graph.Value) graph.Value) []float32 {
		b := graph.New(1)
		b.Output("y", build(b, b.Input("x", graph.Shape{leads, 3, 2, 8, 12})))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		for i := range plan.Input("x") {
			plan.Input("x")[i] = float32(rng.Normal(7, uint64(i)))
		}
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(plan.Output("y"))
	}
	want := run(smallUNet(2).Build)
	for _, name := range []string{"convlstm", "convlstm, both ways", "convgru, two stages"} {
		if got := run(leadsNets(leads)[name].Build); !sameBits(got, want) {
			t.Errorf("%s: an untrained network is not the U-Net of each lead", name)
		}
	}
}

// TestLeadNetworksRefuse: invalid options are refused.
func TestLeadNetworksRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		x   graph.Shape
		net leadsNet
	}{
		"rows that are no trajectories": {graph.Shape{5, 3, 1, 8, 12}, leadsNets(3)["convlstm"]},
		"one lead":                      {graph.Shape{2, 3, 1, 8, 12}, leadsNets(1)["factorised"]},
		"sides":                         {graph.Shape{3, 3, 1, 8, 10}, leadsNets(3)["convlstm"]},
		"unknown cell":                  {graph.Shape{3, 3, 1, 8, 12}, RecurrentUNet{UNet: smallUNet(2), Leads: 3, Cell: "rnn"}},
		"more cells than stages":        {graph.Shape{3, 3, 1, 8, 12}, RecurrentUNet{UNet: smallUNet(2), Leads: 3, CellStages: 3}},
		"own levels":                    {graph.Shape{3, 3, 2, 8, 12}, TimeUNet{UNet: UNet{Base: 1, Stages: 2, Levels: FullLevels}, Leads: 3}},
		"conditions of a depth":         {graph.Shape{3, 3, 1, 8, 12}, TimeUNet{UNet: smallUNet(2), Leads: 3, Condition: FiLM{Conditions: 1}}},
		"more conditions than channels": {graph.Shape{3, 3, 1, 8, 12}, TimeUNet{UNet: smallUNet(2), Leads: 3, Factorised: true, Condition: FiLM{Conditions: 4}}},
	} {
		b := graph.New(1)
		if v := c.net.Build(b, b.Input("x", c.x)); v.Valid() || !errors.Is(b.Err(), graph.ErrShape) {
			t.Errorf("%s: error %v", name, b.Err())
		}
	}
}

// TestLeadsInLessMemory: with less memory, where activations of leads are recomputed, the result
// has the same bits.
func TestLeadsInLessMemory(t *testing.T) {
	build := func() *graph.Graph {
		net := RecurrentUNet{UNet: smallUNet(1), Leads: 3, Bidirectional: true, Truncate: 2}
		g, err := lossOf(3, graph.Shape{3, 3, 1, 8, 12}, net.Build)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	all, least := inLeastMemory(t, build)
	defer all.Close()
	defer least.Close()
	want := trained(t, all)
	for i, got := range trained(t, least) {
		if !sameBits(got, want[i]) {
			t.Errorf("in %d bytes part %d differs", least.ArenaBytes(), i)
		}
	}
	if least.ArenaBytes() >= all.ArenaBytes() {
		t.Errorf("the least arena has %d bytes, that of all results %d", least.ArenaBytes(), all.ArenaBytes())
	}
}

// inLeastMemory compiles a graph twice: with all results kept, and with the smallest possible
// memory.
func inLeastMemory(t *testing.T, build func() *graph.Graph) (all, least *engine.Plan) {
	t.Helper()
	o := engine.Options{Device: engine.Device{Backend: backends(t)[0]}, Numerics: engine.Numerics{UseHeuristics: true}}
	all, err := engine.Compile(build(), o)
	if err != nil {
		t.Fatal(err)
	}
	var small *pass.MemoryLimitError
	o.Memory.Limit = 1
	if _, err := engine.Compile(build(), o); !errors.As(err, &small) {
		t.Fatalf("in one byte: error %v", err)
	}
	o.Memory.Limit = small.Smallest
	if least, err = engine.Compile(build(), o); err != nil {
		t.Fatal(err)
	}
	return all, least
}
