package pass

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// findZeroBlocks tells convolutions which blocks of their filters are zero: of constants by
// their values, of parameters by what the caller promises (Unit.Kept). Their gradients, which
// are made afterwards, know it too. It changes no bit: what is zero adds nothing.
//
// Errors: exit.Usage for a promise that does not fit the filter.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, on structured sparsity.
func findZeroBlocks(u *Unit) error {
	old := u.Graph
	g, err := old.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if !n.Fuses(graph.FuseConv) {
			return graph.Value{}
		}
		filter, shape := old.Nodes[old.AliasRoot(n.In[1])], old.Nodes[n.In[1]].Shape
		kept := u.BlockMasks[filter.Name]
		switch {
		case filter.Kind == graph.KindConst:
			kept = op.BlockMaskOf(filter.Data, shape)
		case filter.Kind != graph.KindParam || len(filter.Shape) < 2 || filter.Shape[0] != shape[0] || filter.Shape[1] != shape[1]:
			return graph.Value{}
		}
		if kept == "" {
			return graph.Value{}
		}
		a := n.Attrs.(op.Conv)
		if err := kept.Check(shape); err != nil {
			return b.Fail(n.Op.Name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the kept blocks of %s do not fit it", filter.Name),
				At: n.At, Why: err.Error(), Fix: "find them from the filter itself (op.KeptOf)", Err: err})
		}
		a.Mask = kept
		return op.Conv3D(b, in[0], in[1], a)
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
