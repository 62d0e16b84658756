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

// measuresCosts reports whether the costs of layouts are measured. They decide layouts,
// and layouts change the last bits of results. With UseHeuristics costs are estimates,
// so that all processes choose alike.
func (b *Backend) measuresCosts() bool { return b.options.Timings != nil && !b.options.UseHeuristics }

// maxCostRatio bounds the search: a layout option whose estimated cost exceeds that of
// the best by this factor is not timed.
const maxCostRatio = 8

// Measure replaces the estimated costs of layout options by measured ones.
//
// Convolutions are timed in every layout, on a part of large fields; the times are
// scaled by the number of grid points. Memory-bound operations are scaled by the
// measured memory bandwidth. Costs are processor time of all threads, because layouts
// must not depend on how many there are.
//
// Nothing is measured without a timing table, with UseHeuristics, or if there is only
// one option.
//
// Unit: seconds of processor time, summed over threads.
// Errors: a kernel that cannot be prepared or that fails.
// Cost: up to a second for each convolution that is not in the table yet.
func (b *Backend) Measure(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape, options []backend.LayoutOption) error {
	if !b.measuresCosts() || len(options) == 1 {
		return nil
	}
	attrs = withoutMask(attrs) // as for dense filters: masks change during pruning, and layouts must not
	q := backend.Request{Op: o, Attrs: attrs, In: tensors(in...), Out: backend.Tensor{Shape: out}}
	if o.Conv == nil {
		rate, err := b.memoryBandwidth(streamingAdd)
		for i := range options {
			options[i].Cost *= memoryRate / rate
		}
		return err
	}
	if float64(o.FLOPs(in, out, attrs)) < benchmarkFLOPs {
		return nil
	}
	part := excerptOf(q)
	same := func(v, w backend.LayoutOption) bool { return v.Name() == w.Name() }
	if !slices.EqualFunc(b.LayoutOptions(o, part.Attrs, part.InShapes(), part.Out.Shape), options, same) {
		part = q
	}
	byCost := slices.SortedStableFunc(slices.Values(options), func(v, w backend.LayoutOption) int { return cmp.Compare(v.Cost, w.Cost) })
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
		replaceCosts(options, entry, float64(cells(q))/float64(cells(part)))
	}
	return err
}

// replaceCosts sets the costs of options from the timings of a smaller problem, scaled
// by parts, the ratio of the sizes. An option without timing keeps its estimated ratio
// to the fastest one that has a timing.
func replaceCosts(options []backend.LayoutOption, entry tune.Entry, parts float64) {
	// factor is the ratio of measured to estimated cost of the fastest option.
	cost := func(t tune.Timing) float64 { return t.CPU.Seconds() * parts }
	factor := 1.0
	var least time.Duration
	for _, t := range entry.Candidates {
		i := slices.IndexFunc(options, func(w backend.LayoutOption) bool { return w.Name() == t.Name })
		if i >= 0 && (least == 0 || t.CPU < least) {
			least, factor = t.CPU, cost(t)/options[i].Cost
		}
	}
	for i, w := range options {
		options[i].Cost *= factor
		if k := slices.IndexFunc(entry.Candidates, func(t tune.Timing) bool { return t.Name == w.Name() }); k >= 0 {
			options[i].Cost = cost(entry.Candidates[k])
		}
	}
}

// ReorderCost returns the seconds of one core to convert a value to a layout. The value
// is read and written once; one side is accessed with a stride, which costs about half
// as much again.
func (b *Backend) ReorderCost(s graph.Shape, to graph.Layout) (float64, error) {
	moved := bytes(graph.Plain, s) + bytes(graph.Blocked, s)
	if !b.measuresCosts() {
		return 1.5 * moved / memoryRate, nil
	}
	rate, err := b.memoryBandwidth(reorderOps[to])
	return moved / rate, err
}

// memoryBoundOp is an operation bound by memory bandwidth, on fields of one shape, for
// measuring the bandwidth.
type memoryBoundOp struct {
	op       string       // name of the operation
	attrs    any          // its attributes
	operands int          // number of operands
	in, out  graph.Layout // layouts of operands and result
}

// The operations whose measured bandwidth is used for all memory-bound kernels: a sum
// of two fields, and the conversion to each layout.
var (
	streamingAdd = memoryBoundOp{op: "add", operands: 2, in: graph.Blocked, out: graph.Blocked}
	reorderOps   = map[graph.Layout]memoryBoundOp{
		graph.Plain:   {"reorder", op.ToLayout{Layout: graph.Plain}, 1, graph.Blocked, graph.Plain},
		graph.Blocked: {"reorder", op.ToLayout{Layout: graph.Blocked}, 1, graph.Plain, graph.Blocked},
	}
)

// rateBytes is the size of the fields on which bandwidth is measured. It exceeds the
// second-level cache of a core, as most values of a training step do.
const rateBytes = 1 << 22

// memoryBandwidth returns the bytes per second that a memory-bound operation reads and
// writes.
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

// tensors returns values of these shapes without memory.
func tensors(shapes ...graph.Shape) (out []backend.Tensor) {
	for _, s := range shapes {
		out = append(out, backend.Tensor{Shape: s})
	}
	return out
}

// inLayouts returns the request with the layouts of an option.
func inLayouts(q backend.Request, w backend.LayoutOption) backend.Request {
	q.In = slices.Clone(q.In)
	for i, l := range w.In {
		q.In[i].Layout = l
	}
	q.Out.Layout = w.Out
	return q
}

// fieldsOf returns the fields of a convolution, which have one size: operands and
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

// cells returns the number of grid points of a convolution's fields, over all samples.
func cells(q backend.Request) int {
	s := fieldsOf(&q)[0].Shape
	return s[0] * s[2:].Size()
}

// Bounds of the part of a convolution that is timed: work of about 40 ms on one core in
// the slowest layout, but enough grid points that the transform of the filter does not
// dominate.
const (
	excerptFLOPs = 4e9
	excerptCells = 1024
)

// excerptOf returns the convolution, or a smaller one on which layout options compare
// as on the whole: first fewer samples, then fewer latitudes.
func excerptOf(q backend.Request) backend.Request {
	q.In = slices.Clone(q.In)
	first := fieldsOf(&q)[0].Shape
	n, lats, around := first[0], first[3], first[2]*first[4]
	work := q.Op.FLOPs(q.InShapes(), q.Out.Shape, q.Attrs) / int64(first[0]*first[3]) // FLOPs of one latitude of one sample
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

// resized returns the convolution on fields of n samples and the given number of
// latitudes.
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

// trial is a kernel to be timed; its request has no memory.
type trial struct {
	name    string          // name of the candidate in the timing table
	request backend.Request // request for the kernel
}

// lookupOrTime returns the timings of equivalent kernels: those in the table under key,
// else measured ones, which it adds to the table.
//
// Errors: those of timeTrials, wrapped with the key.
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

// timeTrials prepares kernels on dummy values and times them. Plain convolutions take
// the form of the heuristic.
//
// Memory: one buffer for each operand and the result, as long as the largest trial
// needs; freed on return.
func (b *Backend) timeTrials(trials []trial) (tune.Entry, error) {
	scout := *b // a copy, so that trials change neither choices nor scratch of b
	scout.options.UseHeuristics, scout.options.Choices, scout.choices, scout.scratch, scout.externalScratch = true, nil, map[string]string{}, nil, false
	room := make([]int, 1+len(trials[0].request.In)) // elements of the result and of each operand
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
			memory[i][k] = float32(k%17-8) / 8 // neither zeros nor denormals, whose speed differs
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
	o := tune.ShortRace
	o.Budget = time.Second
	return tune.Benchmark(runners, o)
}
