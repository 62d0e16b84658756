package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// classColours are the colours of the classes, as in explain.css.
var classColours = map[engine.Class]string{engine.Contraction: "#2d62a3", engine.Normalisation: "#7c4b96", engine.Resampling: "#20806a", engine.Pointwise: "#bd6a14", engine.Copying: "#76808a"}

// WriteDOT writes the graph after a pass ("": before all passes) in the language of Graphviz. Each input and
// operation is a node with its shape, in the colour of its class; each use of a value is an edge with its
// bytes. Changes by the pass are outlined. Forward runs downwards, backward beside it upwards; dashed edges
// are values kept for gradients. Parameters, states, constants, unused values and aliases are omitted; edges
// of an alias start at its origin.
//
// Errors: exit 64 for a pass that did not run; those of w.
func (r *Result) WriteDOT(w io.Writer, after string) error {
	i := slices.IndexFunc(r.PassReports, func(s engine.PassReport) bool { return s.Pass == after })
	if i < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("pass %q did not run", after), Fix: "give one of the stages"}
	}
	g := r.PassReports[i].Graph
	isNew := engine.AddedNodes(r.PassReports[max(i-1, 0)].Graph, g)
	need, backward := g.Needed(g.Roots()), engine.BackwardNodes(g)
	var nodes [2]strings.Builder // forward, backward
	var edges strings.Builder
	drawn := map[int]int{} // node of each value
	for _, n := range g.Nodes {
		if !need[n.ID] || n.Kind != graph.KindOp && n.Kind != graph.KindInput {
			continue
		}
		if n.Kind == graph.KindOp && n.Op.Alias {
			if of, is := drawn[n.In[0]]; is {
				drawn[n.ID] = of
			}
			continue
		}
		drawn[n.ID] = n.ID
		side := &nodes[boolToInt(backward[n.ID])]
		fmt.Fprintf(side, "    n%d [label=%s tooltip=%s", n.ID, dotText(nodeName(n)+"\n"+shapeText(n.Shape)), dotText(nodeText(g, n)))
		if n.Kind == graph.KindOp {
			fmt.Fprintf(side, " fillcolor=%q", classColours[engine.ClassOf(g, n)])
		} else {
			side.WriteString(` fillcolor="white" fontcolor="black"`)
		}
		if isNew(n) {
			side.WriteString(` color="#f2b400" penwidth=3`)
		}
		side.WriteString("];\n")
		var from []int
		for _, id := range n.In {
			if at, is := drawn[id]; is && !slices.Contains(from, at) {
				from = append(from, at)
				size := dotText(bytesText(valueBytes(g.Nodes[at])))
				switch {
				case backward[n.ID] && backward[at]:
					fmt.Fprintf(&edges, "  n%d -> n%d [label=%s dir=back];\n", n.ID, at, size)
				case backward[n.ID]: // not below its gradients, which are drawn beside it
					fmt.Fprintf(&edges, "  n%d -> n%d [tooltip=%s style=dashed minlen=0];\n", at, n.ID, size)
				default:
					fmt.Fprintf(&edges, "  n%d -> n%d [label=%s];\n", at, n.ID, size)
				}
			}
		}
	}
	_, err := fmt.Fprintf(w, `digraph {
  graph [label=%s labelloc=t fontname="sans-serif" fontsize=16];
  node [shape=box style=filled fontname="sans-serif" fontsize=11 fontcolor=white];
  edge [fontname="sans-serif" fontsize=8 color="#8b98a5" fontcolor="#59626b"];
  subgraph cluster_forward {
    label="forward ↓";
%s  }
`, dotText(fmt.Sprintf("%s, %s: %s", r.Network, r.Mode, r.PassReports[i].Name())), nodes[0].String())
	if err == nil && nodes[1].Len() > 0 {
		_, err = fmt.Fprintf(w, "  subgraph cluster_backward {\n    label=\"↑ backward\";\n%s  }\n", nodes[1].String())
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "%s}\n", edges.String())
	}
	return err
}

// dotText quotes a text.
func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// nodeName is the operation of a value, or the name of an input.
func nodeName(n *graph.Node) string {
	if n.Kind == graph.KindOp {
		return n.Op.Name
	}
	return n.Name
}

// shapeText is a shape in short form.
func shapeText(s graph.Shape) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "·"), "[]")
}

// valueBytes is the size of a value.
func valueBytes(n *graph.Node) int64 { return int64(n.Elems()) * int64(n.DType.Bytes()) }

// nodeText describes a value, without its edges.
func nodeText(g *graph.Graph, n *graph.Node) string {
	text := fmt.Sprintf("%s, %s", n.Label(), bytesText(valueBytes(n)))
	if n.Kind == graph.KindOp {
		flops, bytes := n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs), engine.BytesOf(g, n)
		text += fmt.Sprintf("\n%s: %s, %s moved\n%s", engine.ClassOf(g, n), flopsText(flops), bytesText(bytes), graph.AttrText(n.Attrs))
	}
	if n.Layout != graph.Plain {
		text += "\n" + n.Layout.String() + " layout"
	}
	return text
}
