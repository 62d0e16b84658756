package engine

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Class is the kind of work of an operation, by the resource that can bound its
// time.
type Class string

// The classes.
const (
	Contraction   Class = "contraction"   // sums of products over channels and filter taps: convolutions
	Normalisation Class = "normalisation" // reductions, and the maps that apply them
	Resampling    Class = "resampling"    // pooling and upsampling, with their gradients
	Pointwise     Class = "map"           // elementwise
	Copying       Class = "copy"          // no arithmetic: concat, slice, broadcast
)

// Classes lists the classes in the order of prints.
var Classes = []Class{Contraction, Normalisation, Resampling, Pointwise, Copying}

// ClassOf is the class of an operation of g.
//
// Source: Ivanov et al. 2021, arXiv:2007.00072, section 4 (contractions, normalisations,
// maps), with two more classes for convolutional networks.
func ClassOf(g *graph.Graph, n *graph.Node) Class {
	w, class := n.Op.Window(g.InShapes(n), n.Attrs), n.Op.Class
	if f, ok := n.Attrs.(op.HaloOp); ok {
		class = f.Op.Class
	}
	// Arithmetic decides before geometry: a convolution has a window too, and a
	// slice has neither.
	switch {
	case class == graph.Contraction:
		return Contraction
	case n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs) == 0:
		return Copying
	case class == graph.Normalisation || len(w.FullAxes) > 0:
		return Normalisation
	case len(w.Axes) > 0:
		return Resampling
	}
	return Pointwise
}

// Peaks are the peak rates of a machine. 0 means unknown.
type Peaks struct {
	FLOPs float64 `json:"flops_per_s"` // floating point operations per second
	Bytes float64 `json:"bytes_per_s"` // bytes per second between processor and memory
	// Caches are the levels of caches, the fastest first. Without any, all bytes come from memory.
	Caches []CacheLevel `json:"caches,omitempty"`
}

// CacheLevel is what the caches of one level hold together, and their rate.
type CacheLevel struct {
	Size  int64   `json:"size"`        // bytes
	Bytes float64 `json:"bytes_per_s"` // bytes per second
}

// Bound is the resource that limits an operation.
type Bound string

// The bounds.
const (
	ByCompute Bound = "compute"
	ByMemory  Bound = "memory"
)

// Bound is the shortest time in seconds for that many operations and bytes, by
// the roofline model:
//
//	max(flops/peak FLOP/s, bytes/peak bandwidth)
//
// Operands may lie in caches, where the operation before left them, and results may stay there. So many of the bytes as fit
// into each level count at its rate, the rest at the rate of memory.
//
// by is the resource that determines the maximum, empty if no rate is known.
//
// Source: Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785.
func (p Peaks) Bound(flops, bytes int64) (seconds float64, by Bound) {
	var compute, memory float64
	if p.FLOPs > 0 {
		compute = float64(flops) / p.FLOPs
	}
	if p.Bytes > 0 {
		for _, c := range p.Caches {
			near := min(bytes, c.Size)
			bytes -= near
			memory += float64(near) / max(c.Bytes, p.Bytes)
		}
		memory += float64(bytes) / p.Bytes
	}
	switch {
	case compute > memory:
		return compute, ByCompute
	case memory > 0:
		return memory, ByMemory
	}
	return 0, ""
}

// Movement is the work of one operation of a plan: arithmetic, memory traffic
// and bounds.
type Movement struct {
	Node     int         `json:"node"`     // index in Plan.Graph
	Op       string      `json:"op"`       // name of the operation
	Kernel   string      `json:"kernel"`   // name of the kernel in the backend
	Class    Class       `json:"class"`    // kind of work
	Backward bool        `json:"backward"` // only gradients need it
	Shape    graph.Shape `json:"shape"`    // of the result
	FLOPs    int64       `json:"flops"`    // useful operations
	// LeastFLOPs are the fewest operations of the forms in which kernels compute it (op.LeastFLOPs).
	LeastFLOPs int64 `json:"least_flops"`
	// BF16Products reports whether it is a convolution that multiplies bfloat16.
	BF16Products bool  `json:"-"`
	Bytes        int64 `json:"bytes"` // read and written, each operand and the result once
	// BoundS is the shortest time in seconds at the given peaks, Bound the
	// limiting resource.
	BoundS float64 `json:"bound_s,omitempty"`
	Bound  Bound   `json:"bound,omitempty"`
	// MeasuredS is the mean time in seconds, MUE the memory usage efficiency in
	// percent. Both are 0 unless the plan was compiled with Profile and has
	// run.
	MeasuredS float64 `json:"measured_s,omitempty"`
	MUE       float64 `json:"mue,omitempty"`
}

// Intensity is the arithmetic intensity: operations per byte. It is 0 without
// traffic.
//
// Unit: FLOP/byte.
func (m Movement) Intensity() float64 {
	if m.Bytes == 0 {
		return 0
	}
	return float64(m.FLOPs) / float64(m.Bytes)
}

// Movement lists the work of every kernel, in order of execution, with bounds
// by the peaks. The memory usage efficiency is
//
//	MUE = 100 · (Q/D) · (B/Bpeak)
//
// Q is the number of bytes that the operation must move, D the number that it
// moves, and B the achieved bandwidth. D counts operands and results only, so D
// = Q.
//
// Source: Ivanov et al. 2021, arXiv:2007.00072, section 4.
func (p *Plan) Movement(peak Peaks) []Movement {
	backward := BackwardNodes(p.graph)
	out := make([]Movement, len(p.kernels))
	for i, k := range p.kernels {
		n := k.node
		m := Movement{Node: n.ID, Op: n.Op.Name, Kernel: k.Name, Class: ClassOf(p.graph, n), Backward: backward[n.ID], Shape: n.Shape,
			FLOPs: n.Op.FLOPs(p.graph.InShapes(n), n.Shape, n.Attrs), Bytes: nodeBytes(p.graph, n, p.unit.ElemBytes)}
		m.BF16Products = p.multipliesBF16(n)
		m.LeastFLOPs = op.LeastFLOPs(n.Op, p.graph.InShapes(n), n.Shape, n.Attrs, m.BF16Products)
		m.BoundS, m.Bound = peak.Bound(m.LeastFLOPs, m.Bytes)
		if k.runs > 0 {
			m.MeasuredS = float64(k.ns) / float64(k.runs) / 1e9
			if peak.Bytes > 0 && m.MeasuredS > 0 {
				m.MUE = 100 * float64(m.Bytes) / m.MeasuredS / peak.Bytes
			}
		}
		out[i] = m
	}
	return out
}

// multipliesBF16 reports whether a node is a convolution that multiplies bfloat16: the precision is bf16_products, and all its fields are
// stored so.
func (p *Plan) multipliesBF16(n *graph.Node) bool {
	return p.opts.Precision == "bf16_products" && n.Op.Conv != nil &&
		!slices.ContainsFunc(n.Op.Conv.Fields(len(n.In)), func(i int) bool { return p.graph.Nodes[n.In[i]].DType != graph.BFloat16 })
}

// BytesOf counts the float32 bytes that an operation of g reads and writes,
// each value once, with the padding of its layout.
func BytesOf(g *graph.Graph, n *graph.Node) int64 { return nodeBytes(g, n, graph.Float32.Bytes()) }

// nodeBytes counts the bytes that n reads and writes. elem is the size of a
// stored float32 value.
func nodeBytes(g *graph.Graph, n *graph.Node, elem int) int64 {
	if n.Kind != graph.KindOp || n.Op.Alias {
		return 0
	}
	in := make([]graph.Shape, len(n.In))
	for i, id := range n.In {
		in[i] = stored(g.Nodes[id])
	}
	return n.Op.Bytes(in, stored(n), n.Attrs) * int64(elem) / int64(graph.Float32.Bytes())
}

// stored is the shape of a value whose channels are scaled to its memory in
// float32 elements. Layouts with padding have more, 16-bit and int8 values
// fewer.
func stored(n *graph.Node) graph.Shape {
	s := n.Shape
	if n.ArenaElems() != s.Size() {
		s = s.Clone()
		s[1] = s[1] * n.ArenaElems() / n.Shape.Size()
	}
	return s
}

// BackwardNodes marks the nodes that only gradients need: no output, loss or
// assignment depends on them.
func BackwardNodes(g *graph.Graph) []bool {
	forward := *g
	forward.Grads = nil
	back := g.Needed(forward.Roots())
	for i := range back {
		back[i] = !back[i]
	}
	return back
}
