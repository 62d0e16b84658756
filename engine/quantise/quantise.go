// Package quantise calibrates the quantisation of convolutions to int8 (post-training
// quantisation). It runs a trained network on sample inputs, records the distribution of the values
// that each convolution reads, and derives the scales of op.Int8Scales.
//
// The convolutions are computed as Winograd F(4×4, 3×3) transforms on tiles, so there are two kinds
// of scales: one for each input channel, which maps values to 8 bits, and one for each of the
// points of a transformed tile. Two passes over the samples are needed, as the second depends on
// the first:
//
//	c := quantise.New(quantise.Options{})
//	// compile plans with c.Passes(), then for all samples:
//	c.ObserveRanges(plan) // first pass: minimum and maximum of each channel
//	c.ObservePoints(plan) // second pass: histograms of the points of transformed tiles
//	scales, err := c.Scales()
//
// Source: Lavin and Gray 2016, doi:10.1109/CVPR.2016.435 (F(4×4, 3×3)); Andri et al. 2022,
// arXiv:2209.12982 (a scale for each point).
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

// Method is the rule that chooses the clipping limit of a distribution.
type Method string

// The methods.
const (
	Max        Method = "max"         // no clipping: the largest absolute value becomes 127
	Percentile Method = "percentile"  // clips the fraction Options.ClipFraction of the values
	LeastError Method = "least_error" // minimises the squared error of rounding and clipping
)

// Methods lists all methods, the default first.
var Methods = []Method{LeastError, Max, Percentile}

// Options of a calibration. The zero value is the default.
type Options struct {
	Method       Method   // empty means LeastError
	ClipFraction float64  // fraction of the values of each point that Percentile clips, 0 to 1
	Exclude      []string // layers or filters that are not quantised, by name
	// IncludeInput also quantises convolutions that read an input of the network.
	IncludeInput bool
	// MaxTiles limits the number of tiles used per channel and sample; 0 means all.
	MaxTiles int
}

// ErrLayer marks names in Options.Exclude that are not convolutions of the network.
var ErrLayer = errors.New("no such layer")

// layer is a convolution that can be computed in int8. A convolution reads one value or a
// concatenation of two (parts), each with its own zero point.
type layer struct {
	filter  string
	parts   []graph.Shape // shapes of the values that it reads
	shape   graph.Shape   // of the filter
	conv    op.Conv
	min     []float64       // minimum of each input channel
	max     []float64       // maximum of each input channel
	counts  [][][bins]int64 // histograms of |value|, by part and point
	largest [][]int32       // largest |value|, by part and point
	q       *op.Int8Scales  // scales, set by ObserveRanges and Scales
}

// Calibration collects statistics of the values in a network. It is not safe for concurrent use.
//
// Memory: for each convolution and point of a tile a histogram of 384 counts.
type Calibration struct {
	o      Options
	layers []*layer
	// Skipped gives the reason why a convolution is not quantised, by the name of its filter.
	Skipped map[string]string
	samples [2]int // number of samples of ObserveRanges and of ObservePoints
}

// New returns an empty calibration. Only convolutions followed by a ReLU are quantised: the others
// have few channels or are the last layer of a head. Convolutions that read an input are quantised
// with Options.IncludeInput only.
func New(o Options) *Calibration {
	o.Method = cmp.Or(o.Method, Methods[0])
	return &Calibration{o: o}
}

// Passes returns the compiler passes for the plans of a calibration. They add one pass after fuse,
// which makes the values that convolutions read outputs of the plan.
//
// Errors: at compilation ErrLayer for an unknown name in Options.Exclude.
func (c *Calibration) Passes() []pass.Pass {
	list := slices.Clone(pass.List)
	at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "fuse" })
	return slices.Insert(list, at+1, pass.Pass{Name: "observe", Run: c.observe, Purpose: "for calibration: make the inputs of convolutions outputs of the plan"})
}

// observe is the additional pass.
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

// addLayer adds a node to the convolutions that are quantised, or records in Skipped why not.
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
			c.Skipped[filter.Name] = "named in keep"
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
		c.Skipped[filter.Name] = "filter is not 3×3 or 3×3×3, or changes the grid"
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

// outputName names the output with the values that a convolution reads.
func outputName(s *layer, part int) string { return fmt.Sprintf("source %d of %s", part, s.filter) }

// isComputed reports whether a value is computed, and not an input that was only moved (reshaped,
// sliced or joined).
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

// Filters lists the names of the filters that are quantised.
func (c *Calibration) Filters() []string {
	var names []string
	for _, s := range c.layers {
		names = append(names, s.filter)
	}
	return names
}

// ObserveRanges updates minimum and maximum of every channel, after a run of a plan of Passes. It
// must see all samples before the first call of ObservePoints.
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

// setChannelScales computes the zero point of each part and the scale of each channel. A part
// without negative values uses 0 to 255 with zero point 0; else the range is symmetric around zero
// point 128.
func (s *layer) setChannelScales() {
	s.q = &op.Int8Scales{Channels: make([]float32, s.shape[1])}
	lo := 0
	for _, part := range s.parts {
		n, zero := part[1], 0
		if slices.Min(s.min[lo:lo+n]) < 0 {
			zero = 128
		}
		s.q.ZeroPoints = append(s.q.ZeroPoints, zero)
		smallest := float32(0)
		for i := lo; i < lo+n; i++ {
			v := s.max[i] / 255
			if zero > 0 {
				v = max(s.max[i], -s.min[i]) / 127
			}
			if s.q.Channels[i] = float32(v); v > 1e-30 && (smallest == 0 || s.q.Channels[i] < smallest) {
				smallest = s.q.Channels[i]
			}
		}
		for i := lo; i < lo+n; i++ {
			// A channel that is always 0 gets the smallest scale of the part. A large scale
			// would enlarge its filters, and rounding to the common step would lose the others.
			s.q.Channels[i] = max(s.q.Channels[i], smallest, 1e-30)
		}
		lo += n
	}
}

// ObservePoints updates the histograms of the points of transformed tiles, after a run of a plan of
// Passes. The first call fixes the scales of the channels.
func (c *Calibration) ObservePoints(p *engine.Plan) {
	if c.samples[1]++; c.samples[1] == 1 {
		for _, s := range c.layers {
			s.setChannelScales()
		}
	}
	// The values as the int8 kernel sees them, rounded and clipped to 0…255.
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

// Scales returns the scales of the convolutions, by the names of their filters.
//
// Errors: ObserveRanges or ObservePoints saw no sample.
func (c *Calibration) Scales() (map[string]*op.Int8Scales, error) {
	if c.samples[0] == 0 || c.samples[1] == 0 {
		return nil, errors.New("quantise: no samples")
	}
	out := map[string]*op.Int8Scales{}
	for _, s := range c.layers {
		// Scales may be called again after more samples.
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

// scaleFactor is the multiplier, with 15 fractional bits, that maps limit to 127.
func scaleFactor(limit float64) int16 {
	return int16(min(max(math.Floor(127*32768/max(limit, 1)), 1), 32767))
}

// clipLimit is the clipping limit of a distribution with the given histogram.
//
// LeastError tries limits t from the largest value down to 1/8 of it, in steps of 4 %, and
// minimises
//
//	Σ n·(v − t)²  over v > t     +     Σ n·(t/127)²/12  over v ≤ t
//
// where n counts values in a bin with centre v. The second term is the variance of rounding to
// steps of t/127.
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

// bins is the number of bins of a histogram of |value|. Values up to 63 have a bin each, larger
// values 32 bins per octave, up to 2¹⁶.
const bins = 64 + 32*10

// binOf is the bin of a value.
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

// binStart is the smallest value of bin b.
func binStart(b int) float64 {
	if b < 64 {
		return float64(b)
	}
	e, m := (b-64)/32+1, (b-64)%32+32
	return math.Ldexp(float64(m), e)
}
