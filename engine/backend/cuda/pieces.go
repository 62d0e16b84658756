package cuda

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
)

// pieceCounts are the numbers of pieces into which convolutions of the library are
// divided, besides the whole.
var pieceCounts = []int{2, 4, 8}

// pieceWorkspace is the least workspace, in bytes, for which pieces are tried.
const pieceWorkspace = 4 << 20

// piece is a part of a convolution, with the byte offsets of its x and y.
type piece struct {
	ConvPlan
	c    cudnn.Convolution
	x, y int64
}

// pieces is a convolution divided into parts that run one after the other and share one
// workspace: a part of the samples each, or a slab of their rows. It implements
// ConvPlan.
//
// Source: Oyama, Ben-Nun, Hoefler and Matsuoka 2018, arXiv:1804.04806 (micro-batching
// of cuDNN).
type pieces struct {
	name  string
	parts []piece
}

// Name returns the name of the plan with the number of pieces.
func (p *pieces) Name() string { return p.name }

// Fused reports whether the plan includes bias and ReLU.
func (p *pieces) Fused() bool { return p.parts[0].Fused() }

// Workspace returns the largest workspace of the parts.
func (p *pieces) Workspace() (most int64) {
	for _, s := range p.parts {
		most = max(most, s.Workspace())
	}
	return most
}

// Run enqueues the parts.
func (p *pieces) Run(o cudnn.Operands) error {
	for _, s := range p.parts {
		part := o
		part.X, part.Y = advance(o.X, s.x), advance(o.Y, s.y)
		if err := s.Run(part); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the plans of all parts, also after a failure to make one of them.
func (p *pieces) Close() (err error) {
	for _, s := range p.parts {
		if s.ConvPlan == nil { // this one and the following were not made
			break
		}
		if e := s.ConvPlan.Close(); err == nil {
			err = e
		}
	}
	return err
}

// piecesName returns the name of a plan in n pieces.
func piecesName(plan string, n int) string { return fmt.Sprintf("%s%s%d", plan, inPieces, n) }

// parsePieces splits the name into the plan and the number of pieces; 1 is the whole.
func parsePieces(name string) (plan string, n int) {
	plan, text, ok := strings.Cut(name, inPieces)
	if n, err := strconv.Atoi(text); ok && err == nil {
		return plan, n
	}
	return name, 1
}

// inPieces separates plan and number.
const inPieces = ", pieces "

// planIn returns a plan of the library in n pieces; nil if there is none.
func (l libraryVariants) planIn(plan string, n int) ConvPlan {
	if n == 1 {
		return l.b.library.Plan(l.c, plan)
	}
	p := &pieces{name: piecesName(plan, n), parts: split(l.c, n)}
	if p.parts == nil {
		return nil
	}
	for i := range p.parts {
		s := &p.parts[i]
		if s.ConvPlan = l.b.library.Plan(s.c, plan); s.ConvPlan == nil {
			_ = p.Close() // use the whole instead
			return nil
		}
	}
	return p
}

// cache makes planIn faster for this plan in later processes.
func (l libraryVariants) cache(p ConvPlan) {
	parts, ok := p.(*pieces)
	if !ok {
		l.b.library.CachePlan(l.c, p)
		return
	}
	for _, s := range parts.parts {
		l.b.library.CachePlan(s.c, s.ConvPlan)
	}
}

// split divides a convolution into n pieces, a power of two: parts of the samples or,
// if these are too few, slabs of at least 4 rows with the neighbouring rows that they
// read. Only the first and the last slab have zero padding. Gradients of a filter are
// accumulated over pieces. It returns nil if that is not possible.
//
// Source: Oyama, Ben-Nun, Hoefler and Matsuoka 2018, arXiv:1804.04806.
func split(c cudnn.Convolution, n int) (all []piece) {
	// Samples are independent, so they are divided first, as long as parts are equal.
	groups := 1
	for groups < n && c.N%(2*groups) == 0 {
		groups *= 2
	}
	samples, slabs := c.N/groups, n/groups
	out := c.Result()
	const axis, least = 1, 4
	if slabs > 1 && out[axis] < least*slabs {
		return nil
	}
	window := graph.WindowAxis{Size: c.Filter[axis], Stride: max(c.Stride[axis], 1), Dilation: max(c.Dilation[axis], 1), Pad: c.Pad[axis]}
	// The first slabs have one row more if the rows do not divide evenly.
	size, more := out[axis]/slabs, out[axis]%slabs
	cut := workspace.Config{Pieces: []workspace.Piece{{Micro: workspace.Micro{Size: size + 1}, Count: more}, {Micro: workspace.Micro{Size: size}, Count: slabs - more}}}
	rows, err := workspace.Slabs(cut, window, false, c.Size[axis], out[axis], 1)
	if err != nil {
		return nil
	}
	// Byte sizes of a row and of a sample, of x and of y.
	bytes := c.Type.Bytes()
	row := [2]int64{bytes * int64(c.Size[2]) * int64(c.In), bytes * int64(out[2]) * int64(c.Out)}
	sample := [2]int64{row[0] * int64(c.Size[0]) * int64(c.Size[1]), row[1] * int64(out[0]) * int64(out[1])}
	for g := range int64(groups) {
		for _, s := range rows {
			p := piece{c: c, x: g*int64(samples)*sample[0] + int64(s.InFirst)*row[0], y: g*int64(samples)*sample[1] + int64(s.First)*row[1]}
			p.c.N = samples
			if slabs > 1 {
				p.c.Size[axis], p.c.Pad[axis], p.c.ExtraPadEnd[axis] = s.InEnd-s.InFirst, s.PadLow, s.PadHigh-s.PadLow
				p.c.PlaneRowsX, p.c.PlaneRowsY = c.Size[axis], out[axis]
			}
			p.c.Add = c.Add || c.Pass == cudnn.FilterGrad && len(all) > 0
			all = append(all, p)
		}
	}
	return all
}

// advance returns p + bytes; nil stays nil.
func advance(p device.Pointer, bytes int64) device.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, bytes)
}
