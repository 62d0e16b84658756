package pass

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// FactorForm is the form of a layer's Kronecker factors.
type FactorForm string

// The forms.
const (
	ExactFactors   FactorForm = "exact"    // input factor of all channels, taps and the bias
	ChannelFactors FactorForm = "channels" // input factor of the channels, averaged over the taps
	NoFactors      FactorForm = "none"     // none: the layer has a first-order step
)

// LayerFactors describes the Kronecker factors of one filter: the Fisher block of a layer is
// approximated by A ⊗ G, with A of the layer's inputs and G of the gradients of its results.
//
// The filter [O C kD kH kW] is a matrix [O C·taps], the last column of which is the bias if
// there is one. For a transposed convolution the two sides change their meaning: the rows
// are those of its input, and the columns those of the gradients of its result.
type LayerFactors struct {
	Param string     `json:"param"`          // name of the filter
	Bias  string     `json:"bias,omitempty"` // name of the bias in the last column
	Form  FactorForm `json:"form"`
	Why   string     `json:"why,omitempty"` // reason for no factors
	Rows  int        `json:"rows"`          // side of G
	Cols  int        `json:"columns"`       // side of A
	Taps  int        `json:"taps"`          // of the filter
	// gradient is the node of the filter's gradient.
	gradient int
}

// Width is the number of columns of the filter as a matrix: the side of A, for each tap if it is averaged over the taps.
func (l LayerFactors) Width() int {
	if l.Form == ChannelFactors {
		return l.Cols * l.Taps
	}
	return l.Cols
}

// RowsName and ColsName are the names of the outputs with the factors G and A, each the lower
// triangle by rows (op.TriangleSize):
//
//	A = (1/N) Σ p·pᵀ,   G = (N/T) Σ d·dᵀ
//
// over the patches p and gradients d at all positions of N samples (rows of the batch), with T
// positions in each. As the loss is a mean over the samples, N·d is the gradient of the loss
// of one sample.
//
// Source: Grosse and Martens 2016, arXiv:1602.01407, equations 25 and 26.
func (l LayerFactors) RowsName() string { return "factor_rows." + l.Param }

// ColsName is the name of the output with the factor A.
func (l LayerFactors) ColsName() string { return "factor_columns." + l.Param }

// ChooseFactors decides which filters of a graph with gradients get Kronecker factors, and in
// which form: all channels and taps if neither side of the filter as a matrix exceeds maxSide,
// else the channels alone, else none. A filter has none either if it has another role than one
// convolution: its gradient is then a sum, or passes through further operations.
//
// The result is in the order of the parameters, and depends on the graph and maxSide only.
func ChooseFactors(g *graph.Graph, maxSide int) []LayerFactors {
	var out []LayerFactors
	for _, d := range g.Grads {
		param, value := g.Nodes[d.Param], g.Nodes[d.Value]
		if param.Role != graph.Weight {
			continue
		}
		l := LayerFactors{Param: param.Name, Form: NoFactors, gradient: d.Value}
		a, isConv := value.Attrs.(op.ConvGrad)
		if value.Kind != graph.KindOp || !value.Op.Conv.Is(graph.ConvFilter) || !isConv || len(value.In) != 2 {
			l.Why = "its gradient is not that of one convolution"
			out = append(out, l)
			continue
		}
		channels := a.To[1]
		l.Rows, l.Taps = a.To[0], a.To[2]*a.To[3]*a.To[4]
		bias := biasOf(g, value.In[1])
		exact := channels * l.Taps
		if bias != "" {
			exact++
		}
		switch {
		case l.Rows > maxSide:
			l.Why = fmt.Sprintf("%d rows exceed the largest side of %d", l.Rows, maxSide)
		case exact <= maxSide:
			l.Form, l.Cols, l.Bias = ExactFactors, exact, bias
		case channels <= maxSide && l.Taps > 1:
			l.Form, l.Cols = ChannelFactors, channels
		default:
			l.Why = fmt.Sprintf("%d channels exceed the largest side of %d", channels, maxSide)
		}
		out = append(out, l)
	}
	return out
}

// biasOf returns the name of the bias whose gradient is the sum of dy over all but the channels:
// that of the convolution with the result gradient dy. It is "" if there is none.
func biasOf(g *graph.Graph, dy int) string {
	for _, d := range g.Grads {
		param, value := g.Nodes[d.Param], g.Nodes[d.Value]
		if param.Role != graph.Bias || value.Kind != graph.KindOp || len(value.In) != 1 || value.In[0] != dy {
			continue
		}
		added := slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
			return n.Fuses(graph.FuseBias) && n.In[1] == d.Param
		})
		if added {
			return param.Name
		}
	}
	return ""
}

// addFactors adds the Kronecker factors of all chosen layers as outputs of the graph.
func addFactors(u *Unit) error {
	if u.Infer || u.MaxFactorSide == 0 {
		return nil
	}
	u.Factors = ChooseFactors(u.Graph, u.MaxFactorSide)
	b := graph.Extend(u.Graph)
	for _, l := range u.Factors {
		if l.Form == NoFactors {
			continue
		}
		n := u.Graph.Nodes[l.gradient]
		a := n.Attrs.(op.ConvGrad)
		x, dy := b.ValueOf(n.In[0]), b.ValueOf(n.In[1])
		samples, positions := float64(dy.Dim(0)), float64(dy.Shape()[2:].Size())
		patches := op.PatchGram{Conv: a.Conv, Taps: [3]int(a.To[2:]), Ones: l.Bias != "", Channels: l.Form == ChannelFactors}
		patches.Mask = ""
		b.Output(l.ColsName(), op.Scale(b, op.GramOfPatches(b, x, dy, patches), 1/samples))
		b.Output(l.RowsName(), op.Scale(b, op.GramOfChannels(b, dy), samples/positions))
	}
	return b.Err()
}
