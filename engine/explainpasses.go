package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// PassReport describes the graph after one pass, and the cost of a plan if no
// optional pass followed. Dead values, which no output depends on, are counted
// in Dead and nowhere else.
type PassReport struct {
	Pass    string `json:"pass"`    // empty before the first pass
	Purpose string `json:"purpose"` // one line
	Absence string `json:"absence"` // what a plan without the pass computes: pass.Absence
	Values  int    `json:"values"`  // inputs, parameters, states and constants included
	Ops     int    `json:"ops"`     // operations with a kernel
	Dead    int    `json:"dead"`    // operations that no output depends on
	FLOPs   int64  `json:"flops"`   // useful floating point operations
	Bytes   int64  `json:"bytes"`   // memory traffic, as in Movement
	// LiveBytes is the largest sum of values alive at one time, a lower bound
	// of the arena. ArenaBytes is the size of the arena with all values placed.
	LiveBytes  int64 `json:"live_bytes"`
	ArenaBytes int64 `json:"arena_bytes"`
	// Matches is the number of places where the pass rewrote the graph.
	Matches int      `json:"matches"`
	Changes []Change `json:"changes"` // by operation, sorted by name
	// Graph is a copy of the graph, dead values included.
	Graph *graph.Graph `json:"-"`
}

// Change counts the values of one kind that a pass added, removed or changed. A
// changed value has other attributes, shapes, types or layouts.
type Change struct {
	Name    string `json:"name"` // operation, or "const" for constants
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Changed int    `json:"changed"`
}

// tracer records the graph after each pass of a compilation.
type tracer struct{ reports []PassReport }

// wrap returns a copy of the list of passes that records the graph after each
// of them.
func (t *tracer) wrap(list []pass.Pass) []pass.Pass {
	out := slices.Clone(list)
	for i, p := range list {
		out[i].Run = func(u *pass.Unit) error {
			if i == 0 {
				t.reports = nil // the unit is compiled a second time
				if err := t.add(pass.Pass{}, u); err != nil {
					return err
				}
			}
			if err := p.Run(u); err != nil {
				return err
			}
			return t.add(p, u)
		}
	}
	return out
}

// add records the graph after p.
func (t *tracer) add(p pass.Pass, u *pass.Unit) error {
	s := PassReport{Pass: p.Name, Purpose: p.Purpose, Absence: p.Absence.String(), Graph: snapshot(u.Graph)}
	g, memory, err := planCopy(u)
	if err != nil {
		return err
	}
	elem := int64(u.ElemBytes)
	s.LiveBytes, s.ArenaBytes = int64(memory.LowerBound)*elem, int64(memory.ArenaSize)*elem
	need := u.Graph.Needed(u.Graph.Roots())
	for _, n := range u.Graph.Nodes {
		if !need[n.ID] && n.Kind == graph.KindOp {
			s.Dead++
		}
	}
	s.Values = len(g.Nodes)
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && !n.Op.Alias {
			s.Ops++
			s.FLOPs += n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)
			s.Bytes += nodeBytes(g, n, u.ElemBytes)
		}
	}
	if len(t.reports) > 0 {
		s.Changes, s.Matches = changes(t.reports[len(t.reports)-1].Graph, s.Graph)
	}
	t.reports = append(t.reports, s)
	return nil
}

// snapshot copies a graph with its nodes, which later passes may change.
func snapshot(g *graph.Graph) *graph.Graph {
	c := *g
	c.Nodes = make([]*graph.Node, len(g.Nodes))
	for i, n := range g.Nodes {
		m := *n
		c.Nodes[i] = &m
	}
	return &c
}

// planCopy applies the remaining required passes to a copy of the unit: it
// removes dead values, chooses an order of execution and plans the memory.
func planCopy(u *pass.Unit) (*graph.Graph, *pass.Memory, error) {
	v := *u
	v.Graph, v.MemoryLimit = snapshot(u.Graph), 0
	todo := []string{"plan-memory"}
	if v.Sequence == nil {
		todo = []string{"remove-dead", "schedule", "plan-memory"}
	}
	for _, name := range todo {
		i := slices.IndexFunc(pass.List, func(p pass.Pass) bool { return p.Name == name })
		if err := pass.List[i].Run(&v); err != nil {
			return nil, nil, fmt.Errorf("plan after a pass: %w", err)
		}
	}
	return v.Graph, v.Memory, nil
}

// countDifference counts, by kind and description, how many more values the
// second graph needs than the first. Node numbers do not matter.
func countDifference(before, after *graph.Graph) map[[2]string]int {
	count := map[[2]string]int{}
	tally := func(g *graph.Graph, by int) {
		need := g.Needed(g.Roots())
		for _, n := range g.Nodes {
			if need[n.ID] && (n.Kind == graph.KindOp || n.Kind == graph.KindConst) {
				count[[2]string{kindOf(n), nodeText(g, n)}] += by
			}
		}
	}
	tally(before, -1)
	tally(after, 1)
	return count
}

// Diff lists the values that only one of the graphs needs, one line for equal
// operations: "+2 relu f32 [1 8 2 16 16] of [[1 8 2 16 16]]", "−" for those of
// the first graph. The lines have no node numbers and are sorted.
func Diff(before, after *graph.Graph) []string {
	var keys [][2]string
	count := countDifference(before, after)
	for k, d := range count {
		if d != 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var out []string
	for _, k := range keys {
		if d := count[k]; d > 0 {
			out = append(out, fmt.Sprintf("+%d %s", d, k[1]))
		} else {
			out = append(out, fmt.Sprintf("−%d %s", -d, k[1]))
		}
	}
	return out
}

// AddedNodes returns a predicate for nodes of the second graph: whether the
// first graph has fewer values equal to it.
func AddedNodes(before, after *graph.Graph) func(*graph.Node) bool {
	count := countDifference(before, after)
	return func(n *graph.Node) bool { return count[[2]string{kindOf(n), nodeText(after, n)}] > 0 }
}

// changes sums the difference of two graphs by kind. matches is the number of
// added and changed values, or of removed ones if a pass only removes.
func changes(before, after *graph.Graph) (list []Change, matches int) {
	count := countDifference(before, after)
	byName := map[string]*Change{}
	for k, d := range count {
		if d == 0 {
			continue
		}
		c := byName[k[0]]
		if c == nil {
			c = &Change{Name: k[0]}
			byName[k[0]] = c
		}
		if d > 0 {
			c.Added += d
		} else {
			c.Removed -= d
		}
	}
	var written, removed int
	for _, c := range byName {
		c.Changed = min(c.Added, c.Removed)
		c.Added, c.Removed = c.Added-c.Changed, c.Removed-c.Changed
		written += c.Added + c.Changed
		removed += c.Removed
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	if written == 0 {
		return list, removed
	}
	return list, written
}

// kindOf is the operation of a value, or its kind if it is none.
func kindOf(n *graph.Node) string {
	if n.Kind == graph.KindOp {
		return n.Op.Name
	}
	return n.Kind.String()
}

// nodeText formats a value without its number: operation, attributes, type,
// layout, and shapes of result and operands.
func nodeText(g *graph.Graph, n *graph.Node) string {
	s := fmt.Sprintf("%s %v %v", kindOf(n), n.DType, n.Shape)
	if n.Layout != graph.Plain {
		s += fmt.Sprintf(" %v", n.Layout)
	}
	if n.Kind != graph.KindOp {
		return s
	}
	if a := graph.AttrText(n.Attrs); a != "" {
		s += " " + a
	}
	return s + fmt.Sprintf(" of %v", g.InShapes(n))
}
