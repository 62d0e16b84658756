//go:build cgo && linux

package cpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
)

// measuresCosts tells whether costs of ways are measured. They decide layouts, and so
// bits: where kernels are chosen by rule the estimates stay.
func (b *Backend) measuresCosts() bool { return b.options.Timings != nil && !b.options.UseHeuristics }

// maxCostRatio is how many times slower than the best a way may be by the estimate to
// be timed.
const maxCostRatio = 8

// Measure puts measured costs in place of the estimates of ways: convolutions are
// timed in every way, on an excerpt of large fields; what is bound by memory goes by
// the rate of this machine. Costs are processor time, of all threads together.
// Nothing is measured without a table of timings, by rule, and where there is
// no choice.
func (b *Backend) Measure(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape, ways []backend.LayoutOption) error {
	if !b.measuresCosts() || len(ways) == 1 {
		return nil
	}
	attrs = withoutMask(attrs) // layouts are chosen as for whole filters: patterns change, and what is zero changes no bit
	q := backend.Request{Op: o, Attrs: attrs, In: tensors(in...), Out: backend.Tensor{Shape: out}}
	if o.Conv == nil {
		rate, err := b.memoryBandwidth(streamingAdd)
		for i := range ways {
			ways[i].Cost *= memoryRate / rate
		}
		return err
	}
	if float64(o.FLOPs(in, out, attrs)) < benchmarkFLOPs {
		return nil
	}
	part := excerptOf(q)
	same := func(v, w backend.LayoutOption) bool { return v.Name() == w.Name() }
	if !slices.EqualFunc(b.LayoutOptions(o, part.Attrs, part.InShapes(), part.Out.Shape), ways, same) {
		part = q
	}
	byCost := slices.SortedStableFunc(slices.Values(ways), func(v, w backend.LayoutOption) int { return cmp.Compare(v.Cost, w.Cost) })
	var trials []trial
	for _, w := range byCost {
		if w.Cost <= maxCostRatio*byCost[0].Cost {
			trials = append(trials, trial{w.Name(), inLayouts(part, w)})
		}
	}
	if len(trials) == 1 {
		return nil
	}
	key := fmt.Sprintf("ways winograd %v %s %s %v to %v", b.options.Winograd, o.Name, graph.AttrText(part.Attrs), part.InShapes(), part.Out.Shape)
	entry, err := b.lookupOrTime(key, trials)
	if err == nil {
		replaceCosts(ways, entry, float64(cells(q))/float64(cells(part)))
	}
	return err
}

// replaceCosts takes the costs of ways from an entry for one of so many parts of
// the work. Ways that were not timed keep their distance by the estimate from the
// fastest that was.
func replaceCosts(ways []backend.LayoutOption, entry tune.Entry, parts float64) {
	cost := func(t tune.Timing) float64 { return t.CPU.Seconds() * parts }
	factor := 1.0
	var least time.Duration
	for _, t := range entry.Candidates {
		i := slices.IndexFunc(ways, func(w backend.LayoutOption) bool { return w.Name() == t.Name })
		if i >= 0 && (least == 0 || t.CPU < least) {
			least, factor = t.CPU, cost(t)/ways[i].Cost
		}
	}
	for i, w := range ways {
		ways[i].Cost *= factor
		if k := slices.IndexFunc(entry.Candidates, func(t tune.Timing) bool { return t.Name == w.Name() }); k >= 0 {
			ways[i].Cost = cost(entry.Candidates[k])
		}
	}
}

// ReorderCost is the time in seconds to bring a value into a layout from the
// other: it is read and written, with strides on one side.
func (b *Backend) ReorderCost(s graph.Shape, to graph.Layout) (float64, error) {
	moved := bytes(graph.Plain, s) + bytes(graph.Blocked, s)
	if !b.measuresCosts() {
		return 1.5 * moved / memoryRate, nil
	}
	rate, err := b.memoryBandwidth(reorderOps[to])
	return moved / rate, err
}

// memoryBoundOp is a kernel bound by memory: an operation on fields of one shape.
type memoryBoundOp struct {
	op       string
	attrs    any
	operands int
	in, out  graph.Layout
}

// The kernels whose rates stand for all that are bound by memory: a sum, and the
// change to each layout.
var (
	streamingAdd = memoryBoundOp{op: "add", operands: 2, in: graph.Blocked, out: graph.Blocked}
	reorderOps   = map[graph.Layout]memoryBoundOp{
		graph.Plain:   {"reorder", op.ToLayout{Layout: graph.Plain}, 1, graph.Blocked, graph.Plain},
		graph.Blocked: {"reorder", op.ToLayout{Layout: graph.Blocked}, 1, graph.Plain, graph.Blocked},
	}
)

// rateBytes is the size of the fields on which rates are measured: beyond the
// second-level cache of a core, as most values of a step are.
const rateBytes = 1 << 22

// memoryBandwidth is what a kernel bound by memory reads and writes in a second.
func (b *Backend) memoryBandwidth(m memoryBoundOp) (float64, error) {
	const channels, lons = 4 * graph.BlockSize, 64
	shape := graph.Shape{1, channels, 1, rateBytes / (4 * channels * lons), lons}
	q := backend.Request{Op: op.Find(m.op), Attrs: m.attrs, Out: backend.Tensor{Shape: shape, Layout: m.out}}
	for range m.operands {
		q.In = append(q.In, backend.Tensor{Shape: shape, Layout: m.in})
	}
	e, err := b.lookupOrTime(fmt.Sprintf("rate of %s to %v", m.op, m.out), []trial{{m.op, q}})
	if err != nil {
		return 1, err
	}
	return float64((m.operands+1)*rateBytes) / max(e.Candidates[0].CPU, 1).Seconds(), nil
}

// tensors are values without memory.
func tensors(shapes ...graph.Shape) (out []backend.Tensor) {
	for _, s := range shapes {
		out = append(out, backend.Tensor{Shape: s})
	}
	return out
}

// inLayouts is a request in the layouts of a way.
func inLayouts(q backend.Request, w backend.LayoutOption) backend.Request {
	q.In = slices.Clone(q.In)
	for i, l := range w.In {
		q.In[i].Layout = l
	}
	q.Out.Layout = w.Out
	return q
}

// fieldsOf are the fields of a convolution, all of one size: its operands and
// result without filter and bias.
func fieldsOf(q *backend.Request) (fields []*backend.Tensor) {
	in, conv := q.In, q.Op.Conv
	switch {
	case conv.Is(graph.ConvData):
		in = in[1:]
	case !conv.Is(graph.ConvFilter):
		in = in[:len(conv.Sources(len(in)))]
	}
	for i := range in {
		fields = append(fields, &in[i])
	}
	if !conv.Is(graph.ConvFilter) {
		fields = append(fields, &q.Out)
	}
	return fields
}

// cells counts the cells of a convolution's fields.
func cells(q backend.Request) int {
	s := fieldsOf(&q)[0].Shape
	return s[0] * s[2:].Size()
}

// Bounds of an excerpt: work that takes some 40 ms on one core in the slowest way,
// but no fewer cells than hide what preparing the filter costs.
const (
	excerptFLOPs = 4e9
	excerptCells = 1024
)

// excerptOf is a convolution, or a part of it of fewer samples and latitudes on which
// ways compare as on the whole.
func excerptOf(q backend.Request) backend.Request {
	q.In = slices.Clone(q.In)
	first := fieldsOf(&q)[0].Shape
	n, lats, around := first[0], first[3], first[2]*first[4]
	work := q.Op.FLOPs(q.InShapes(), q.Out.Shape, q.Attrs) / int64(first[0]*first[3]) // of a latitude
	for work*int64(n*lats) > excerptFLOPs && n*lats*around >= 2*excerptCells {
		switch {
		case n > 1:
			n = (n + 1) / 2
		case lats >= 24:
			lats /= 2
		default:
			return resized(q, n, lats)
		}
	}
	return resized(q, n, lats)
}

// resized is a convolution of fields of so many samples and latitudes.
func resized(q backend.Request, n, lats int) backend.Request {
	for _, f := range fieldsOf(&q) {
		f.Shape = f.Shape.Clone()
		f.Shape[0], f.Shape[3] = n, lats
	}
	if q.Op.Conv.Is(graph.ConvData) {
		switch a := q.Attrs.(type) {
		case op.ConvGrad:
			a.To = q.Out.Shape
			q.Attrs = a
		case op.FusedConvGrad:
			a.To = q.Out.Shape
			q.Attrs = a
		}
	}
	return q
}

// trial is a kernel to be timed, asked for without memory.
type trial struct {
	name    string
	request backend.Request
}

// lookupOrTime gives the times of kernels that serve the same: those in the table under
// the key, else measured now and put there.
func (b *Backend) lookupOrTime(key string, trials []trial) (tune.Entry, error) {
	if e, ok := b.options.Timings.Lookup(key); ok {
		return e, nil
	}
	var e tune.Entry
	err := b.Do(func() (err error) { e, err = b.timeTrials(trials); return err })
	if err != nil {
		return e, fmt.Errorf("timing %s: %w", key, err)
	}
	b.options.Timings.Record(key, e)
	return e, nil
}

// timeTrials prepares and times kernels on values of no meaning. Of plain convolutions
// the form is that of the rule. All share the memory of the largest.
func (b *Backend) timeTrials(trials []trial) (tune.Entry, error) {
	scout := *b // what is prepared here leaves neither choices nor scratch behind
	scout.options.UseHeuristics, scout.options.Choices, scout.choices, scout.scratch, scout.externalScratch = true, nil, map[string]string{}, nil, false
	room := make([]int, 1+len(trials[0].request.In)) // of the result, of the operands
	for _, t := range trials {
		room[0] = max(room[0], t.request.Out.Layout.Elems(t.request.Out.Shape))
		for i, x := range t.request.In {
			room[1+i] = max(room[1+i], x.Layout.Elems(x.Shape))
		}
	}
	memory := make([][]float32, len(room))
	for i, n := range room {
		memory[i] = bigmem.Make[float32](n)
		for k := range memory[i] {
			memory[i][k] = float32(k%17-8) / 8
		}
	}
	bound := func(i int, x backend.Tensor) backend.Tensor {
		x.F32 = memory[i][:x.Layout.Elems(x.Shape)]
		return x
	}
	var runners []tune.Candidate
	for _, t := range trials {
		q := t.request
		q.Out, q.In = bound(0, q.Out), slices.Clone(q.In)
		for i, x := range q.In {
			q.In[i] = bound(1+i, x)
		}
		k, err := scout.Prepare(q)
		if err != nil {
			return tune.Entry{}, err
		}
		if k.Close != nil {
			defer k.Close()
		}
		runners = append(runners, tune.Candidate{Name: t.name, Bytes: k.Scratch, Run: k.Run})
	}
	return tune.Benchmark(runners, tune.BenchmarkOptions{MinRounds: 2, MinDuration: 15 * time.Millisecond, Budget: time.Second})
}
