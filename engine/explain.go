package engine

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/answer"
)

// Explanation describes a compilation: the graph after every pass, and the
// plan.
type Explanation struct {
	Backend     string       `json:"backend"`     // name of the backend
	Threads     int          `json:"threads"`     // CPU threads
	PassReports []PassReport `json:"stages"`      // the graph before the first and after each pass
	Ops         []PlannedOp  `json:"ops"`         // kernels in order of execution
	Classes     []ClassSum   `json:"classes"`     // sums by class of work
	Buffers     []Buffer     `json:"buffers"`     // buffers of the arena
	FLOPs       int64        `json:"flops"`       // useful floating point operations of a run
	Bytes       int64        `json:"bytes"`       // memory traffic of a run
	BoundS      float64      `json:"bound_s"`     // shortest time in seconds, summed over the operations
	Peaks       Peaks        `json:"peaks"`       // peak rates of the machine, for the bounds
	ArenaBytes  int64        `json:"arena_bytes"` // size of the arena
	LiveBytes   int64        `json:"live_bytes"`  // largest sum of values alive at one time: a lower bound of the arena
	// ScratchBytes is the largest scratch of a kernel. Kernels use it in turn.
	ScratchBytes int64 `json:"scratch_bytes"`
	Parameters   int   `json:"parameters"` // number of trained values
	// Roles sums the parameters by role, in the order of graph.Role.
	Roles []RoleSum `json:"roles"`
	// Factors are the Kronecker factors of every filter, if the step computes some.
	Factors []pass.LayerFactors `json:"factors,omitempty"`
	Notes   []string            `json:"notes"` // notes of the network and of passes
	// Graph is the graph after all passes.
	Graph *graph.Graph `json:"-"`
}

// PlannedOp is one kernel of the plan with the place of its result.
type PlannedOp struct {
	Movement
	Layer string `json:"layer"` // parameter that it reads, or whose gradient it computes; empty if none
	// Where is "arena", "host" for host memory, or the name of the parameter
	// whose gradient the result is.
	Where  string `json:"where"`
	Offset int64  `json:"offset"` // bytes from the start of the arena
	Size   int64  `json:"size"`   // bytes
	// Scratch is the size in bytes of the workspace of the kernel.
	Scratch int64 `json:"scratch"`
}

// Buffer is one buffer of the arena. Its values share it one after the other.
// First and Last are the positions, counted from 0, of the operations between
// which it is in use.
type Buffer struct {
	Values []string `json:"values"` // labels of the values, in order of use
	Offset int64    `json:"offset"` // bytes
	Size   int64    `json:"size"`   // bytes
	First  int      `json:"first"`  // −1: before the first operation
	Last   int      `json:"last"`   // the number of operations: after the last operation
	Node   int      `json:"node"`   // first value, as index of Graph.Nodes
}

// RoleSum sums the parameters of one role.
type RoleSum struct {
	Role    string `json:"role"`    // graph.Role
	Tensors int    `json:"tensors"` // number of parameters
	Values  int    `json:"values"`  // trained values
	Decays  bool   `json:"decays"`  // whether weight decay and trust ratios act on them
}

// roleSums sums the parameters of a store by role.
func roleSums(s *Store) (sums []RoleSum) {
	by := map[graph.Role]*RoleSum{}
	for _, e := range s.Entries() {
		if e.State {
			continue
		}
		if by[e.Role] == nil {
			by[e.Role] = &RoleSum{Role: e.Role.String(), Decays: e.Role.Decays()}
		}
		by[e.Role].Tensors++
		by[e.Role].Values += e.Shape.Size()
	}
	for _, r := range slices.Sorted(maps.Keys(by)) {
		sums = append(sums, *by[r])
	}
	return sums
}

// ClassSum sums the operations of one class.
type ClassSum struct {
	Class  Class   `json:"class"`
	Ops    int     `json:"ops"`     // number of operations
	FLOPs  int64   `json:"flops"`   // useful floating point operations
	Bytes  int64   `json:"bytes"`   // memory traffic
	BoundS float64 `json:"bound_s"` // shortest time in seconds
}

// Explain compiles g and reports what every pass changed, with the plan and its
// bounds for a machine with these peaks.
//
// Errors: those of Compile.
func Explain(g *graph.Graph, o Options, peak Peaks) (*Explanation, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var t tracer
	o.Passes = t.wrap(o.Passes)
	p, err := Compile(g, o)
	if err != nil {
		return nil, err
	}
	e := p.describe(peak)
	e.PassReports = t.reports
	return e, p.Close()
}

// describe explains the plan alone, without the passes.
func (p *Plan) describe(peak Peaks) *Explanation {
	m, elem := p.unit.Memory, int64(p.unit.ElemBytes)
	e := &Explanation{Backend: p.dev.Name(), Threads: p.opts.Threads, Peaks: peak, Graph: p.graph,
		ArenaBytes: p.ArenaBytes(), ScratchBytes: p.ScratchBytes(), LiveBytes: int64(m.LowerBound) * elem,
		Parameters: p.opts.Store.ParamCount(), Roles: roleSums(p.opts.Store), Factors: p.Factors(), Notes: p.graph.Notes}
	sums := map[Class]*ClassSum{}
	layers := p.layers()
	for i, mv := range p.Movement(peak) {
		at := m.Places[mv.Node]
		o := PlannedOp{Movement: mv, Layer: layers[mv.Node], Where: "arena", Offset: int64(at.Offset) * elem, Size: int64(at.Size) * elem, Scratch: p.kernels[i].Scratch}
		if at.Space == pass.Host {
			o.Where = "host"
			if p.memory.file != nil {
				o.Where = "file"
			}
		} else if at.Space != pass.Arena {
			o.Where = p.graph.Nodes[at.Owner].Name
		}
		e.Ops = append(e.Ops, o)
		s := sums[mv.Class]
		if s == nil {
			s = &ClassSum{Class: mv.Class}
			sums[mv.Class] = s
		}
		s.Ops++
		s.FLOPs += mv.FLOPs
		s.Bytes += mv.Bytes
		s.BoundS += mv.BoundS
		e.FLOPs += mv.FLOPs
		e.Bytes += mv.Bytes
		e.BoundS += mv.BoundS
	}
	for _, c := range Classes {
		if s := sums[c]; s != nil {
			e.Classes = append(e.Classes, *s)
		}
	}
	for _, s := range m.Spans {
		if len(s.Nodes) == 0 {
			continue
		}
		b := Buffer{Offset: int64(s.Offset) * elem, Size: int64(s.Size) * elem, First: s.First, Last: s.Last, Node: s.Nodes[0]}
		for _, id := range s.Nodes {
			b.Values = append(b.Values, p.graph.Nodes[id].Label())
		}
		e.Buffers = append(e.Buffers, b)
	}
	return e
}

// Explain prints the plan: every kernel in order with its result, its offset in
// the arena and its work. If the plan was compiled with Profile, it also prints
// mean time and rate. Sums and the notes of the network follow.
func (p *Plan) Explain(w io.Writer) error { return p.describe(Peaks{}).PlanSections().WriteText(w) }

// PlanSections returns the plan without the passes: a table of kernels, sums, a
// table of classes, and notes.
func (e *Explanation) PlanSections() answer.Sections {
	known := e.Peaks.FLOPs > 0 || e.Peaks.Bytes > 0
	var measured float64
	for _, o := range e.Ops {
		measured += o.MeasuredS
	}
	kernels := answer.Section{Columns: slices.Concat(answer.NumberColumns("", "#"), answer.TextColumns("result", "operation", "class", "shape", "kernel"),
		[]answer.Column{answer.NumberColumn("scratch", "KiB", ""), answer.NumberColumn("at byte", "", ""), answer.NumberColumn("MFLOP", "", "%.2f"), answer.NumberColumn("MiB", "", "%.3f")})}
	if known {
		kernels.Columns = append(kernels.Columns, answer.NumberColumn("bound", "µs", "%.1f"), answer.Column{Name: "by"})
	}
	if measured > 0 {
		kernels.Columns = append(kernels.Columns, answer.NumberColumn("ms", "", "%.3f"), answer.NumberColumn("GFLOP/s", "", "%.1f"))
	}
	for i, o := range e.Ops {
		where := fmt.Sprint(o.Offset)
		if o.Where == "host" {
			where = o.Where
		} else if o.Where != "arena" {
			where = "∂" + o.Where
		}
		row := []any{i, fmt.Sprintf("%%%d", o.Node), o.Op, o.Class, o.Shape, o.Kernel, (o.Scratch + 1023) >> 10, where, float64(o.FLOPs) / 1e6, float64(o.Bytes) / (1 << 20)}
		if known {
			row = append(row, 1e6*o.BoundS, o.Bound)
		}
		if measured > 0 {
			row = append(row, 1e3*o.MeasuredS, float64(o.FLOPs)/max(1e9*o.MeasuredS, 1))
		}
		kernels.Rows = append(kernels.Rows, row)
	}
	sums := []string{fmt.Sprintf("backend %s, %d threads, %d kernels, %.3f GFLOP, %.1f MiB moved; %d parameters",
		e.Backend, e.Threads, len(e.Ops), float64(e.FLOPs)/1e9, float64(e.Bytes)/(1<<20), e.Parameters),
		fmt.Sprintf("arena %.1f MiB, lower bound %.1f MiB (values alive at one time); scratch %.1f MiB, shared by the kernels",
			float64(e.ArenaBytes)/(1<<20), float64(e.LiveBytes)/(1<<20), float64(e.ScratchBytes)/(1<<20))}
	if measured > 0 {
		sums = append(sums, fmt.Sprintf("kernels %.3f ms, %.1f GFLOP/s", 1e3*measured, float64(e.FLOPs)/measured/1e9))
	}
	if known {
		sums = append(sums, fmt.Sprintf("bound %.3f ms at %.1f GFLOP/s and %.1f GB/s", 1e3*e.BoundS, e.Peaks.FLOPs/1e9, e.Peaks.Bytes/1e9))
	}
	classes := answer.Section{Text: sums, Columns: slices.Concat(answer.TextColumns("class"), answer.NumberColumns("", "kernels"), answer.NumberColumns("%.2f", "% of work", "% of bytes"))}
	if known {
		classes.Columns = append(classes.Columns, answer.NumberColumn("% of bound", "", "%.2f"))
	}
	for _, c := range e.Classes {
		row := []any{c.Class, c.Ops, share(c.FLOPs, e.FLOPs), share(c.Bytes, e.Bytes)}
		if known {
			row = append(row, 100*c.BoundS/e.BoundS)
		}
		classes.Rows = append(classes.Rows, row)
	}
	roles := answer.Section{Columns: slices.Concat(answer.TextColumns("parameters"), answer.NumberColumns("", "tensors", "values"), answer.TextColumns("weight decay"))}
	for _, r := range e.Roles {
		roles.Rows = append(roles.Rows, []any{r.Role, r.Tensors, r.Values, map[bool]string{true: "yes", false: "no"}[r.Decays]})
	}
	for _, n := range e.Notes {
		roles.Notes = append(roles.Notes, "note: "+n)
	}
	out := answer.Sections{kernels, classes, roles}
	if len(e.Factors) > 0 {
		factors := answer.Section{Title: "Kronecker factors", Columns: slices.Concat(answer.TextColumns("filter", "bias", "factors"), answer.NumberColumns("", "rows", "columns"), answer.TextColumns("why none"))}
		for _, l := range e.Factors {
			factors.Rows = append(factors.Rows, []any{l.Param, l.Bias, string(l.Form), l.Rows, l.Cols, l.Why})
		}
		out = append(out, factors)
	}
	return out
}

// share is a as a percentage of b.
func share(a, b int64) float64 { return 100 * float64(a) / float64(max(b, 1)) }

// PassSections returns a table with one row per pass, with the cost of the
// graph after it, then a list of the changes of each pass.
func (e *Explanation) PassSections() answer.Sections {
	const mib = 1 << 20
	costs := answer.Section{Columns: slices.Concat(answer.TextColumns("after"), answer.NumberColumns("", "values", "operations"), answer.NumberColumns("%.3f", "GFLOP"),
		answer.NumberColumns("%.1f", "MiB moved", "MiB alive", "MiB arena"), answer.NumberColumns("", "matches"))}
	var changed [][2]string
	for _, s := range e.PassReports {
		costs.Rows = append(costs.Rows, []any{s.Name(), s.Values, s.Ops, float64(s.FLOPs) / 1e9, float64(s.Bytes) / mib, float64(s.LiveBytes) / mib, float64(s.ArenaBytes) / mib, s.Matches})
		if text := s.ChangesText(); text != "" {
			changed = append(changed, [2]string{s.Name(), text})
		}
	}
	if changed == nil {
		return answer.Sections{costs}
	}
	return answer.Sections{costs, answer.FactsSection(changed...)}
}

// Name is the name of the pass, or "(as built)" before the first one.
func (s PassReport) Name() string {
	if s.Pass == "" {
		return "(as built)"
	}
	return s.Pass
}

// ChangesText lists the changes on one line: "+17 conv3d_fused, −17 conv3d, ~2
// mul". It is empty if there are none.
func (s PassReport) ChangesText() string {
	var parts []string
	for _, c := range s.Changes {
		for _, d := range []struct {
			sign string
			n    int
		}{{"+", c.Added}, {"−", c.Removed}, {"~", c.Changed}} {
			if d.n > 0 {
				parts = append(parts, fmt.Sprintf("%s%d %s", d.sign, d.n, c.Name))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// WriteGraph prints the graph after all passes as text, one value per line.
func (p *Plan) WriteGraph(w io.Writer) error { return p.graph.WriteText(w) }

// Times is the measured time per run in nanoseconds, summed by operation. It is
// empty unless the plan was compiled with Profile.
func (p *Plan) Times() map[string]int64 {
	out := map[string]int64{}
	for _, k := range p.kernels {
		if k.runs > 0 {
			out[k.node.Op.Name] += k.ns / k.runs
		}
	}
	return out
}

// InputShape is the shape of an input, or nil if the graph has no input of this
// name.
func (p *Plan) InputShape(name string) graph.Shape {
	if n := p.graph.Find(name); n != nil && n.Kind == graph.KindInput {
		return n.Shape
	}
	return nil
}

// OutputShape is the shape of an output, or nil if the graph has no output of
// this name.
func (p *Plan) OutputShape(name string) graph.Shape {
	for _, o := range p.graph.Outputs {
		if o.Name == name {
			return p.graph.Nodes[o.ID].Shape
		}
	}
	return nil
}
