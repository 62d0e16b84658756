//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// The kernels accept every chain that the pass fuse-chains makes: these constants do
// not compile otherwise.
const (
	_ = uint(kern.MaxChain - op.MaxChain)
	_ = uint(kern.MaxChainOperands - op.MaxChainOperands)
)

// chainLinks returns the functions of a chain for package kern; nil if one of them has
// no kernel.
func chainLinks(a op.Chain) []kern.ChainLink {
	var links []kern.ChainLink
	for _, l := range a.Links {
		link := elementwise[l.Op.Name].link
		if link == nil {
			return nil
		}
		k := link(l.Attrs)
		k.Args = l.Args
		links = append(links, k)
	}
	return links
}

// chain prepares a chain of elementwise operations on plain values in one loop, with
// operands broadcast in any way.
func chain(b *Backend, q backend.Request) (backend.Kernel, error) {
	links := chainLinks(q.Attrs.(op.Chain))
	if links == nil {
		return backend.Kernel{}, nil
	}
	operands := make([]kern.ChainOperand, len(q.In))
	x := make([]kern.Stored, len(q.In))
	for i, t := range q.In {
		x[i] = kern.Float32(t.F32)
		if !t.Shape.Equal(q.Out.Shape) {
			operands[i].Dims, operands[i].Steps = op.NewLoop(q.Out.Shape, []graph.Shape{t.Shape}).Axes(0)
		}
	}
	y, c := kern.Float32(q.Out.F32), kern.NewChain(len(q.Out.F32), false, operands, links)
	return kernel("chain", func() { b.pool.Chain(c, y, x) })
}

// perChannelShape reports whether s is [1 C 1 1 1] with the channels of out.
func perChannelShape(s, out graph.Shape) bool { return s.Equal(graph.Shape{1, out[1], 1, 1, 1}) }

// chainLayouts is the rule of chains over blocked fields, numbers per channel and
// single numbers. The result must be zero in the padding channels whenever the fields
// are.
func chainLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.Chain)
	w := backend.LayoutOption{Out: graph.Blocked, In: make([]graph.Layout, len(in))}
	if !field5(out) || chainLinks(a) == nil {
		return w, false
	}
	w.Cost = bytes(graph.Blocked, out) / memoryRate
	zero := make([]bool, len(in))
	for i, s := range in {
		switch {
		case s.Equal(out):
			w.In[i], zero[i] = graph.Blocked, true
			w.Cost += bytes(graph.Blocked, s) / memoryRate
		case perChannelShape(s, out):
			zero[i] = true
		case s.Size() != 1:
			return w, false
		}
	}
	return w, zeroForZeros(a, zero)
}

// zeroForZeros reports whether a chain gives zero where the marked operands are zero,
// for all values of the others. It evaluates the chain with unknown values: a link has
// a known result if its operands are known, or if it is a product with a factor of
// zero.
func zeroForZeros(a op.Chain, zero []bool) bool {
	type value struct {
		v     float64
		known bool
	}
	var all []value
	for _, z := range zero {
		all = append(all, value{0, z})
	}
	isZero := func(v value) bool { return v.known && v.v == 0 }
	for _, l := range a.Links {
		in, known, factor := [3]float64{}, true, false
		for i, j := range l.Args {
			in[i] = all[j].v
			known = known && all[j].known
			factor = factor || isZero(all[j])
		}
		r := value{known: known}
		switch f := l.Op.Scalar; {
		case f.ZeroFactor && factor: // 0·x = 0, also for unknown x
			r.known = true
		case !known:
		case f.F1 != nil:
			r.v = f.F1(in[0], f.P(l.Attrs))
		case f.F2 != nil:
			r.v = f.F2(in[0], in[1], f.P(l.Attrs))
		default:
			r.v = f.F3(in[0], in[1], in[2], f.P(l.Attrs))
		}
		all = append(all, r)
	}
	return isZero(all[len(all)-1])
}

// blockedChain prepares a chain over blocked fields. Before each run, numbers per
// channel are copied to whole blocks, with zeros beyond the last channel.
func blockedChain(b *Backend, q backend.Request) (backend.Kernel, error) {
	s := blockedShape(q.Out.Shape)
	operands, x := make([]kern.ChainOperand, len(q.In)), make([]kern.Stored, len(q.In))
	type lanes struct{ from, to []float32 }
	var spread []lanes
	for i, t := range q.In {
		switch {
		case t.Layout == graph.Blocked:
			x[i] = fieldOf(t)
		case perChannelShape(t.Shape, q.Out.Shape) && s.C > 1:
			l := lanes{t.F32, make([]float32, s.Blocks()*kern.Block)}
			spread = append(spread, l)
			x[i] = kern.Float32(l.to)
			operands[i] = kern.ChainOperand{Dims: []int{s.N, s.Blocks(), s.Cells(), kern.Block}, Steps: []int{0, kern.Block, 0, 1}}
		default:
			x[i] = kern.Float32(t.F32)
			operands[i] = kern.ChainOperand{Dims: []int{s.Len()}, Steps: []int{0}}
		}
	}
	y := fieldOf(q.Out)
	c := kern.NewChain(y.Len(), q.Out.U16 != nil, operands, chainLinks(q.Attrs.(op.Chain)))
	c.SetPadding(s)
	return kernel("blocked chain", func() {
		for _, l := range spread {
			copy(l.to, l.from)
		}
		b.pool.Chain(c, y, x)
	})
}
