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

// pieceCounts are the numbers of pieces in which a convolution is tried, beside the whole, and
// pieceWorkspace the least workspace, in bytes, of which pieces are worth having.
var pieceCounts = []int{2, 4, 8}

const pieceWorkspace = 4 << 20

// piece is a part of a convolution, and where its x and y begin, in bytes.
type piece struct {
	ConvPlan
	c    cudnn.Convolution
	x, y int64
}

// pieces are a convolution as parts that run one after the other, with one workspace: some of
// the samples each, or slabs of their rows. It is a plan like that of the whole.
type pieces struct {
	name  string
	parts []piece
}

func (p *pieces) Name() string { return p.name }
func (p *pieces) Fused() bool  { return p.parts[0].Fused() }

// Workspace is the largest.
func (p *pieces) Workspace() (most int64) {
	for _, s := range p.parts {
		most = max(most, s.Workspace())
	}
	return most
}

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

func (p *pieces) Close() (err error) {
	for _, s := range p.parts {
		if s.ConvPlan == nil { // that could not be made, nor those behind it
			break
		}
		if e := s.ConvPlan.Close(); err == nil {
			err = e
		}
	}
	return err
}

// piecesName is what a plan is called in so many pieces, and parsePieces reads it; 1 is the whole.
func piecesName(plan string, n int) string { return fmt.Sprintf("%s%s%d", plan, inPieces, n) }

func parsePieces(name string) (plan string, n int) {
	plan, text, ok := strings.Cut(name, inPieces)
	if n, err := strconv.Atoi(text); ok && err == nil {
		return plan, n
	}
	return name, 1
}

const inPieces = ", pieces "

// planIn is the plan of a name of the library in so many pieces; nil if there is none.
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
			_ = p.Close() // the whole is served
			return nil
		}
	}
	return p
}

// cache has planIn give a plan sooner.
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

// split cuts a convolution into n pieces, a power of two: of the samples, and where these are fewer
// of rows, with the rows around them that they read. Zeros are beyond the first and the last row
// only. Pieces of a gradient of a filter add to those before. None are less than 4 rows.
//
// Source: Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
func split(c cudnn.Convolution, n int) (all []piece) {
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
	size, more := out[axis]/slabs, out[axis]%slabs
	cut := workspace.Config{Pieces: []workspace.Piece{{Micro: workspace.Micro{Size: size + 1}, Count: more}, {Micro: workspace.Micro{Size: size}, Count: slabs - more}}}
	rows, err := workspace.Slabs(cut, window, false, c.Size[axis], out[axis], 1)
	if err != nil {
		return nil
	}
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

// advance is so many bytes behind p; nil stays nil.
func advance(p device.Pointer, bytes int64) device.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, bytes)
}
