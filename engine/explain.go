package engine

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Explain prints the plan: every kernel in order with its result, its place in
// the arena, its useful work, and the mean time and rate if the plan was
// compiled with Profile; then sums and the notes of the network.
func (p *Plan) Explain(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	head := "#\tresult\toperation\tkernel\tshape\toffset\tMFLOP\t"
	if p.opts.Profile {
		head += "ms\tGFLOP/s\t"
	}
	fmt.Fprintln(t, head)
	var total int64
	for i, k := range p.kernels {
		n := k.node
		flops := n.Op.FLOPs(p.graph.InShapes(n), n.Shape, n.Attrs)
		at := p.unit.Memory.Places[n.ID]
		where := fmt.Sprint(at.Offset)
		if at.Where != pass.Arena {
			where = p.graph.Nodes[at.Of].Name
		}
		fmt.Fprintf(t, "%d\t%%%d\t%s\t%s\t%v\t%s\t%.2f\t", i, n.ID, n.Op.Name, k.Name, n.Shape, where, float64(flops)/1e6)
		if p.opts.Profile && k.runs > 0 {
			ns := k.ns / k.runs
			total += ns
			fmt.Fprintf(t, "%.3f\t%.1f\t", float64(ns)/1e6, float64(flops)/float64(max(ns, 1)))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	m := p.unit.Memory
	fmt.Fprintf(&b, "backend %s, %d threads, %d kernels, %.3f GFLOP\n", p.dev.Name(), p.opts.Threads, len(p.kernels), float64(p.FLOPs())/1e9)
	fmt.Fprintf(&b, "arena %.1f MiB, at least %.1f MiB alive at one time; parameters %d\n",
		float64(p.ArenaBytes())/(1<<20), float64(m.Lower*p.unit.ElemBytes)/(1<<20), p.opts.Store.ParamCount())
	if total > 0 {
		fmt.Fprintf(&b, "kernels %.3f ms, %.1f GFLOP/s\n", float64(total)/1e6, float64(p.FLOPs())/float64(total))
	}
	for _, n := range p.graph.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteGraph prints the graph after all passes as text, one value a line.
func (p *Plan) WriteGraph(w io.Writer) error { return p.graph.WriteText(w) }

// Times sums the measured time by operation in nanoseconds per run; empty
// unless the plan was compiled with Profile.
func (p *Plan) Times() map[string]int64 {
	out := map[string]int64{}
	for _, k := range p.kernels {
		if k.runs > 0 {
			out[k.node.Op.Name] += k.ns / k.runs
		}
	}
	return out
}

// InputShape is the shape of an input; nil if the graph has none of this name.
func (p *Plan) InputShape(name string) graph.Shape {
	if n := p.graph.Find(name); n != nil && n.Kind == graph.KindInput {
		return n.Shape
	}
	return nil
}

// OutputShape is the shape of an output; nil if the graph has none of this name.
func (p *Plan) OutputShape(name string) graph.Shape {
	for _, o := range p.graph.Outputs {
		if o.Name == name {
			return p.graph.Nodes[o.ID].Shape
		}
	}
	return nil
}
