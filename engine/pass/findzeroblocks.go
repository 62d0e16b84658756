package pass

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// findZeroBlocks marks the zero blocks of convolution filters: of constants by
// their values, of parameters by the caller's masks (Unit.BlockMasks).
// Gradients, which are added later, inherit the mask. No bit changes, since
// zero blocks contribute nothing. For predictions on devices with kernels for the
// 2:4 pattern it marks filters that have it too.
//
// Errors: exit.Usage if a mask does not fit its filter.
// Source: Hoefler et al. 2021, arXiv:2102.00554, on structured sparsity; Mishra et
// al. 2021, arXiv:2104.08378, on 2:4.
func findZeroBlocks(u *Unit) error {
	old := u.Graph
	g, err := old.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if !n.Fuses(graph.FuseConv) {
			return graph.Value{}
		}
		filter, shape := old.Nodes[old.AliasRoot(n.In[1])], old.Nodes[n.In[1]].Shape
		mask, twoFour := u.BlockMasks[filter.Name], u.TwoFourFilters[filter.Name]
		switch {
		case filter.Kind == graph.KindConst:
			mask, twoFour = op.BlockMaskOf(filter.Data, shape), op.IsTwoFour(filter.Data, shape)
		case filter.Kind != graph.KindParam || len(filter.Shape) < 2 || filter.Shape[0] != shape[0] || filter.Shape[1] != shape[1]:
			return graph.Value{}
		}
		twoFour = twoFour && u.Infer && u.HasTwoFourKernels
		if mask == "" && !twoFour {
			return graph.Value{}
		}
		a := n.Attrs.(op.Conv)
		if err := mask.Check(shape); err != nil {
			return b.Fail(n.Op.Name, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the block mask of %s does not fit its shape", filter.Name),
				At: n.At, Why: err.Error(), Fix: "compute the mask from the filter (op.BlockMaskOf)", Err: err})
		}
		a.Mask, a.TwoFour = mask, twoFour
		return op.Conv3D(b, in[0], in[1], a)
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
