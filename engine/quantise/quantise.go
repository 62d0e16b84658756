// Package quantise finds the scales with which convolutions of a trained network multiply
// codes of eight bits (op.Int8Scales): of the values that samples have in the network, first the
// largest of every channel, then how large the points of transformed tiles become.
package quantise

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Method says where values of a point are cut off.
type Method string

// The methods.
const (
	Max        Method = "max"         // nowhere: the largest that was seen has the largest code
	Percentile Method = "percentile"  // but for a share of them
	LeastError Method = "least_error" // where rounding and cutting off together cost least squares
)

// Methods lists them, the default first.
var Methods = []Method{LeastError, Max, Percentile}

// Options of a calibration.
type Options struct {
	Method       Method
	ClipFraction float64  // that Percentile cuts off, of each point
	Exclude      []string // layers, by their names or filters, that stay as they are
	// IncludeInput quantises convolutions that read an input, too, alone or beside other values.
	IncludeInput bool
	// MaxTiles is the most that are looked at of a channel in a sample; 0 means all.
	MaxTiles int
}

// ErrLayer marks layers that are not there.
var ErrLayer = errors.New("no such layer")

// layer is a convolution that can multiply codes.
type layer struct {
	filter  string
	parts   []graph.Shape
	shape   graph.Shape
	conv    op.Conv
	min     []float64
	max     []float64 // of channels
	counts  [][][bins]int64
	largest [][]int32
	q       *op.Int8Scales
}

// Calibration looks at the values of a network.
type Calibration struct {
	o      Options
	layers []*layer
	// Skipped says why convolutions stay as they are, by the names of their filters.
	Skipped map[string]string
	samples [2]int
}

// New prepares a calibration. Convolutions behind which no ReLU follows stay as they are: they
// have few channels or end a head. So do those that read an input, unless Options.IncludeInput.
func New(o Options) *Calibration {
	o.Method = cmp.Or(o.Method, Methods[0])
	return &Calibration{o: o}
}

// Passes are those of a compiler of predictions whose plans can be looked at: what
// convolutions read are outputs.
//
// Errors: the pass observe gives ErrLayer for a name of Options.Exclude.
func (c *Calibration) Passes() []pass.Pass {
	list := slices.Clone(pass.List)
	at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "fuse" })
	return slices.Insert(list, at+1, pass.Pass{Name: "observe", Run: c.observe, Purpose: "for a calibration, give what convolutions read"})
}

func (c *Calibration) observe(u *pass.Unit) error {
	c.layers, c.Skipped = nil, map[string]string{}
	kept := map[string]bool{}
	need := u.Graph.Needed(u.Graph.Roots())
	for _, n := range u.Graph.Nodes {
		if n.Kind == graph.KindOp && need[n.ID] {
			c.addLayer(u.Graph, n, kept)
		}
	}
	for _, name := range c.o.Exclude {
		if !kept[name] {
			return fmt.Errorf("%q: %w", name, ErrLayer)
		}
	}
	return nil
}

func (c *Calibration) addLayer(g *graph.Graph, n *graph.Node, kept map[string]bool) {
	if !n.Op.Conv.Is(graph.ConvForward) {
		return
	}
	tail := len(n.Op.Conv.Sources(len(n.In)))
	filter := g.Nodes[g.AliasRoot(n.In[tail])]
	if filter.Kind != graph.KindParam {
		return
	}
	for _, name := range c.o.Exclude {
		if name == filter.Name || name+".weight" == filter.Name {
			kept[name] = true
			c.Skipped[filter.Name] = "named by keep"
			return
		}
	}
	a, fused := n.Attrs.(op.FusedConv)
	inputs := false
	for _, id := range n.In[:tail] {
		inputs = inputs || !isComputed(g, id)
	}
	switch points := op.Int8WinogradPoints(n.Shape[2], g.Nodes[n.In[tail]].Shape, a.Conv); {
	case !fused || !a.ReLU:
		c.Skipped[filter.Name] = "no ReLU follows"
	case points == 0 || tail > 2:
		c.Skipped[filter.Name] = "no filter of 3×3 or 3×3×3 that keeps the field"
	case inputs && !c.o.IncludeInput:
		c.Skipped[filter.Name] = "reads the input"
	default:
		s := &layer{filter: filter.Name, shape: g.Nodes[n.In[tail]].Shape, conv: a.Conv}
		for i, id := range n.In[:tail] {
			g.Outputs = append(g.Outputs, graph.Output{Name: outputName(s, i), ID: id})
			s.parts = append(s.parts, g.Nodes[id].Shape)
			s.counts = append(s.counts, make([][bins]int64, points))
			s.largest = append(s.largest, make([]int32, points))
		}
		s.min, s.max = make([]float64, s.shape[1]), make([]float64, s.shape[1])
		c.layers = append(c.layers, s)
	}
}

func outputName(s *layer, part int) string { return fmt.Sprintf("source %d of %s", part, s.filter) }

// isComputed tells whether a value is more than an input in another shape.
func isComputed(g *graph.Graph, id int) bool {
	n := g.Nodes[g.AliasRoot(id)]
	switch {
	case n.Kind != graph.KindOp:
		return false
	case n.Op.Moves != graph.NoMove:
		return slices.ContainsFunc(n.In, func(in int) bool { return isComputed(g, in) })
	}
	return true
}

// Filters are the names of the filters of convolutions that get scales.
func (c *Calibration) Filters() []string {
	var names []string
	for _, s := range c.layers {
		names = append(names, s.filter)
	}
	return names
}

// ObserveRanges takes the largest and least value of every channel from a run of a plan of Passes.
// All samples pass it before any passes Points.
func (c *Calibration) ObserveRanges(p *engine.Plan) {
	c.samples[0]++
	for _, s := range c.layers {
		lo := 0
		for i, shape := range s.parts {
			x := p.Output(outputName(s, i))
			cells := shape[2:].Size()
			for k := 0; k < len(x); k += cells {
				at := lo + k/cells%shape[1]
				for _, v := range x[k : k+cells] {
					s.min[at], s.max[at] = min(s.min[at], float64(v)), max(s.max[at], float64(v))
				}
			}
			lo += shape[1]
		}
	}
}

// setChannelScales fixes the scales of channels.
func (s *layer) setChannelScales() {
	s.q = &op.Int8Scales{Channels: make([]float32, s.shape[1])}
	lo := 0
	for _, part := range s.parts {
		n, zero := part[1], 0
		if slices.Min(s.min[lo:lo+n]) < 0 {
			zero = 128
		}
		s.q.ZeroPoints = append(s.q.ZeroPoints, zero)
		least := float32(0)
		for i := lo; i < lo+n; i++ {
			v := s.max[i] / 255
			if zero > 0 {
				v = max(s.max[i], -s.min[i]) / 127
			}
			if s.q.Channels[i] = float32(v); v > 1e-30 && (least == 0 || s.q.Channels[i] < least) {
				least = s.q.Channels[i]
			}
		}
		for i := lo; i < lo+n; i++ {
			// A channel that was always 0 must not have a large scale: that would be in its
			// filters, and leave nothing of the others when all are rounded.
			s.q.Channels[i] = max(s.q.Channels[i], least, 1e-30)
		}
		lo += n
	}
}

// ObservePoints counts how large the points of transformed tiles are in a run of a plan of Passes.
func (c *Calibration) ObservePoints(p *engine.Plan) {
	if c.samples[1]++; c.samples[1] == 1 {
		for _, s := range c.layers {
			s.setChannelScales()
		}
	}
	var codes []float64
	for _, s := range c.layers {
		lo := 0
		for i, shape := range s.parts {
			x := p.Output(outputName(s, i))
			cells := shape[2:].Size()
			codes = codes[:0]
			for k, v := range x {
				code := math.RoundToEven(float64(v)/float64(s.q.Channels[lo+k/cells%shape[1]])) + float64(s.q.ZeroPoints[i])
				codes = append(codes, min(max(code, 0), 255))
			}
			stride := 1
			if tiles := shape[2] * ((shape[3] + 3) / 4) * ((shape[4] + 3) / 4); c.o.MaxTiles > 0 {
				stride = max(1, tiles/c.o.MaxTiles)
			}
			counts, largest := s.counts[i], s.largest[i]
			source := op.Int8Source{Values: codes, Shape: shape, ZeroPoint: s.q.ZeroPoints[i], Conv: s.conv, Levels: s.shape[2]}
			source.EachTile(stride, func(_, _, _ int, points []int32) {
				for p, v := range points {
					v = max(v, -v)
					counts[p][binOf(v)]++
					largest[p] = max(largest[p], v)
				}
			})
			lo += shape[1]
		}
	}
}

// Scales are what the convolutions need, by the names of their filters.
//
// Errors: no sample was looked at.
func (c *Calibration) Scales() (map[string]*op.Int8Scales, error) {
	if c.samples[0] == 0 || c.samples[1] == 0 {
		return nil, errors.New("quantise: scales without a sample")
	}
	out := map[string]*op.Int8Scales{}
	for _, s := range c.layers {
		s.q.Factors = nil
		for i := range s.parts {
			f := make([]int16, len(s.counts[i]))
			for p := range f {
				f[p] = scaleFactor(c.o.clipLimit(&s.counts[i][p], s.largest[i][p]))
			}
			s.q.Factors = append(s.q.Factors, f)
		}
		out[s.filter] = s.q
	}
	return out, nil
}

// scaleFactor takes values up to a limit to 127.
func scaleFactor(limit float64) int16 {
	return int16(min(max(math.Floor(127*32768/max(limit, 1)), 1), 32767))
}

// clipLimit is where values are cut off.
func (o Options) clipLimit(counts *[bins]int64, largest int32) float64 {
	all := int64(0)
	for _, n := range counts {
		all += n
	}
	switch o.Method {
	case Percentile:
		beyond := int64(0)
		for b := bins - 1; b >= 0; b-- {
			if beyond += counts[b]; float64(beyond) > o.ClipFraction*float64(all) {
				return min(binStart(b+1), float64(largest))
			}
		}
	case LeastError:
		best, at := math.Inf(1), float64(largest)
		for t := at; t > at/8; t *= 0.96 {
			step, e := t/127, 0.0
			for b, n := range counts {
				if n == 0 {
					continue
				}
				if v := (binStart(b) + binStart(b+1) - 1) / 2; v > t {
					e += float64(n) * (v - t) * (v - t)
				} else {
					e += float64(n) * step * step / 12
				}
			}
			if e < best {
				best, at = e, t
			}
		}
		return at
	}
	return float64(largest)
}

// Values up to 63 have a bin each, larger ones 32 to an octave.
const bins = 64 + 32*10

func binOf(v int32) int {
	if v < 64 {
		return int(v)
	}
	e := 0
	for v >= 64 {
		v >>= 1
		e++
	}
	return min(64+32*(e-1)+int(v-32), bins-1)
}

// binStart is the least value of a bin.
func binStart(b int) float64 {
	if b < 64 {
		return float64(b)
	}
	e, m := (b-64)/32+1, (b-64)%32+32
	return math.Ldexp(float64(m), e)
}
