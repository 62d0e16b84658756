package cost

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/program"
)

// Amounts are the amounts of work of an operation, by kind.
type Amounts [amounts]float64

// The kinds of work.
const (
	direct    = iota // operations of products in the direct form, whole blocks of channels
	products         // operations of products in Winograd's form, whole tiles and blocks of channels; as direct where there is none
	transform        // values of transformed tiles and results, whole tiles and blocks of channels
	filter           // values of the filter, which each run reads and transforms; whole blocks of channels
	flops            // operations outside of convolutions
	moved            // bytes read and written, each operand and the result once
	amounts          // number of kinds
)

// Work is what an operation of a plan does.
type Work struct {
	Kind    string // kind of operation: class, pass of a convolution, kind of kernel
	Class   string // engine.Class, for kinds without coefficients
	Shape   string // of the result
	Amounts Amounts
}

// WorkOf counts the work of an operation of a plan's graph.
func WorkOf(g *graph.Graph, m engine.Movement) Work {
	n := g.Nodes[m.Node]
	w := Work{Class: string(m.Class), Shape: m.Shape.String()}
	w.Amounts[moved] = float64(m.Bytes)
	kernel, _, _ := strings.Cut(m.Kernel, " ")
	kernel = strings.TrimRight(kernel, ",:")
	c, ok := op.ConvWorkOf(n.Op, g.InShapes(n), n.Shape, n.Attrs, m.BF16Products)
	if !ok {
		w.Kind = w.Class + "/" + m.Op
		if kernel == "ref" || kernel == "formula" {
			w.Kind = w.Class + "/" + kernel
		}
		w.Amounts[flops] = float64(m.FLOPs)
		return w
	}
	w.Kind = w.Class + "/" + passNames[n.Op.Conv.Pass] + "/" + kernel
	in, out := blocks(c.In), blocks(c.Out)
	w.Amounts[direct], w.Amounts[products] = c.Direct*in*out, c.TileProducts*in*out
	w.Amounts[transform], w.Amounts[filter] = (c.Tiles*in+c.Results*out)*c.Rounding, c.Filter*in*out
	return w
}

// passNames are the names of the passes of a convolution in kinds of operations.
var passNames = map[graph.ConvPass]string{graph.ConvForward: "forward", graph.ConvData: "data", graph.ConvFilter: "filter"}

// blocks is the ratio of channels in whole blocks to channels.
func blocks(channels int) float64 {
	return float64((channels+graph.BlockSize-1)/graph.BlockSize*graph.BlockSize) / float64(channels)
}

// UpdateKind is the kind of the optimiser's update, which is no operation of the graph.
const UpdateKind = "map/update"

// UpdateWork is the work of an optimiser's update with a number of values of state for each parameter: a sum of squares over the
// gradients, then one pass that reads gradient, parameter and state and writes the last two.
func UpdateWork(parameters int64, state int) Work {
	w := Work{Kind: UpdateKind, Class: string(engine.Pointwise)}
	w.Amounts[moved] = float64(4 * parameters * int64(4+2*state))
	return w
}

// Step is the work of a step.
type Step struct {
	Ops    []Work
	Values int64 // bytes of the arena
	// Producers are those of program.Graph, for the operations of the plan.
	Producers Producers
}

// Producers are, for each operation, the operations that make its operands; −1 for operands that none makes.
type Producers [][]int

// StepOf counts the work of a plan's operations, in order of execution.
func StepOf(p *engine.Plan) Step {
	s := Step{Values: p.ArenaBytes()}
	var order []int
	for _, m := range p.Movement(engine.Peaks{}) {
		s.Ops = append(s.Ops, WorkOf(p.Graph(), m))
		order = append(order, m.Node)
	}
	s.Producers = program.Of(p.Graph(), order).Producers()
	return s
}

// FeatureCount is the number of features of an operation.
const FeatureCount = features

// Features of an operation on a machine: seconds that each kind of work takes at the machine's rate. Bytes count as near, so many as the
// second caches of the threads hold, and far. Values of convolutions are also read and written by instructions, as wide as those of
// elementwise operations, whose own values count as operations. With several threads an operation also wakes them and waits for them.
const (
	features = amounts + 4
	near     = amounts // the place of moved holds far bytes
	start    = amounts + 1
	touched  = amounts + 2
	joined   = amounts + 3 // as start; 0 with one thread
)

// Bytes are the bytes that the operation reads and writes, each operand and the result once.
func (w Work) Bytes() float64 { return w.Amounts[moved] }

// Features returns the features of work in a step with values of some bytes.
//
// Unit: seconds.
func (s Setup) Features(a Amounts, values int64) [features]float64 {
	r := s.Rates
	matrix, minimal := r.Products, r.Minimal
	if s.Precision == bf16Precision {
		matrix, minimal = r.BF16Products, r.BF16Minimal
	}
	cached := min(a[moved], float64(s.Machine.L2*int64(r.Threads)))
	x := [features]float64{direct: a[direct] / matrix, products: a[products] / minimal, transform: a[transform] / r.Elementwise,
		filter: 4 * a[filter] / r.L2, flops: a[flops] / r.Elementwise, moved: (a[moved] - cached) / r.far(values+int64(a[moved])), near: cached / r.L2, start: r.Start}
	if a[direct] > 0 {
		x[touched] = a[moved] / 4 / r.Elementwise
	}
	if r.Threads > 1 {
		x[joined] = r.Start
	}
	return x
}
