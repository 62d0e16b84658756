package spatial

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// BucketBytes is the size at which a bucket of gradients is summed over the ranks.
// It is large enough that latency is a small part of the time of a message, and
// small enough that many sums run during the backward pass.
//
// Unit: bytes.
// Source: Li et al. 2020, arXiv:2006.15704, section 3.2.3; the default of PyTorch's
// DistributedDataParallel.
const BucketBytes = 25 << 20

// deferredSumAttrs holds the attributes of the deferred sum: the mesh axes to sum
// over, and the parameters whose gradient the sum is.
type deferredSumAttrs struct {
	meshAxes
	Params []string
}

// sumRanksDeferred is sum_ranks with a result that exists only at the end of a run.
// The kernel copies the gradient to its bucket, and starts the sum if the bucket is
// complete; extension.Finish waits for the sums. No operation may read the result.
//
// Shape: x → y of the same shape.
// Memory: a bucket stays in memory until its sum has ended.
var sumRanksDeferred = &graph.Op{
	Name:   "sum_ranks_deferred",
	Doc:    "The sum over the ranks along mesh axes, complete at the end of the run. Only the gradient store reads it.",
	Source: "Li et al. 2020, arXiv:2006.15704, section 3.2",
	NoGrad: noGrad, Shape: sumRanks.Shape, Window: sumRanks.Window, FLOPs: noFLOPs, Bytes: sumRanks.Bytes, InPlace: sumRanks.InPlace,
	Ordered: true,
}

// deferSums replaces each sum_ranks that is a gradient and has no other reader by
// sumRanksDeferred. Sums that an operation, an output, a state or the loss reads
// stay as they are.
func deferSums(u *pass.Unit) error {
	g := u.Graph
	params := map[int][]string{} // by sum
	for _, d := range g.Grads {
		params[g.AliasRoot(d.Value)] = append(params[g.AliasRoot(d.Value)], g.Nodes[d.Param].Name)
	}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && !n.Op.Alias {
			for _, id := range n.In {
				delete(params, g.AliasRoot(id))
			}
		}
	}
	for _, o := range g.Outputs {
		delete(params, g.AliasRoot(o.ID))
	}
	for _, a := range g.Assigns {
		delete(params, g.AliasRoot(a.Value))
	}
	if g.Loss >= 0 {
		delete(params, g.AliasRoot(g.Loss))
	}
	var err error
	u.Graph, err = g.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind != graph.KindOp || n.Op != sumRanks || len(params[n.ID]) == 0 {
			return graph.Value{}
		}
		return b.Node(sumRanksDeferred, deferredSumAttrs{n.Attrs.(meshAxes), params[n.ID]}, in[0])
	})
	return err
}

// inFlight is the number of gradient sums in progress at a time when the memory of
// gradients is reused: one that runs and one that is ready to start.
const inFlight = 2

// gradientSums sums gradients over ranks in buckets, in the order in which the
// backward pass fills them. The sums run in a comm.Task, concurrently with the
// kernels of the rank.
//
// The sizes of the gradients and the number of ranks alone decide the buckets and
// the algorithm. The bits of the sums therefore do not depend on timing.
type gradientSums struct {
	bucketBuilder
	c        *comm.Comm
	blocking bool         // wait for each sum before the next kernel runs
	tasks    []*comm.Task // of the current run
	sharded  bool         // each rank keeps only the sums of its own pieces, in shards
	shards   *Shards
	// position of the operation at which the first sum may start, if sharded
	firstSum int
	costs    SumCosts
}

// newGradientSums returns sums over the group c with buckets of BucketBytes.
func newGradientSums(c *comm.Comm) *gradientSums {
	return &gradientSums{c: c, bucketBuilder: bucketBuilder{size: BucketBytes}}
}

// bucketBuilder assigns gradients to buckets in the order in which the backward
// pass computes them.
type bucketBuilder struct {
	size    int // bytes at which a bucket is full
	buckets []*bucket
	open    map[string]*bucket // buckets that are not full, by mesh axes
}

// bucketFor returns the bucket of the next gradient: the open one of its mesh axes,
// or a new one. The bucket is closed when it reaches the size of a full one.
func (f *bucketBuilder) bucketFor(axes string, bytes int) *bucket {
	if f.open == nil {
		f.open = map[string]*bucket{}
	}
	b := f.open[axes]
	if b == nil {
		b = &bucket{axes: axes}
		f.open[axes] = b
		f.buckets = append(f.buckets, b)
	}
	if b.bytes += bytes; b.bytes >= f.size {
		delete(f.open, axes)
	}
	return b
}

// bucket is a set of gradients that are summed in one collective.
type bucket struct {
	axes    string // mesh axes to sum over
	bytes   int
	group   *comm.Comm // used by tasks only
	grads   []bucketGrad
	n       int   // number of values
	cuts    []int // boundaries of the piece that each rank of the group sums
	pending int   // gradients that the current run has not computed yet
	// Sums on devices only: gradients computed in the current run, and the function
	// that waits for the sum.
	computed int
	wait     func() error
}

// bucketGrad is one gradient of a bucket.
type bucketGrad struct {
	params []string
	x      backend.Tensor
	n      int
}

// SumCosts accumulates the communication costs of a rank: gradient sums over ranks
// and, with a sharded optimiser, the all-gather of parameters.
type SumCosts struct {
	Runs    int           // runs of the plan
	Bytes   int64         // bytes of the summed gradients
	Running time.Duration // time during which sums were in progress
	// Exposed is the time that the rank waited for communication without other work
	// to do.
	Exposed time.Duration
}

// add puts a gradient into the open bucket of its mesh axes.
func (s *gradientSums) add(q backend.Request) *bucket {
	a := q.Attrs.(deferredSumAttrs)
	n, unit := len(q.Out.F32), 4
	if q.Out.F64 != nil {
		n, unit = len(q.Out.F64), 8
	}
	b := s.bucketFor(a.meshAxes.String(), n*unit)
	b.grads, b.n = append(b.grads, bucketGrad{a.Params, q.Out, n}), b.n+n
	return b
}

// prepare returns the kernel that copies a gradient to its bucket. The kernel of
// the last gradient of a bucket starts the sum.
func (s *gradientSums) prepare(q backend.Request) (backend.Kernel, error) {
	b := s.add(q)
	return backend.Kernel{Name: "bucket", ResultAtEnd: true, Run: func() error {
		copy(q.Out.F32, q.In[0].F32)
		copy(q.Out.F64, q.In[0].F64)
		if b.pending--; b.pending > 0 {
			return nil
		}
		return s.start(b)
	}}, nil
}

// lifetimes returns the function for pass.Unit.ExternalGrads when ranks keep the
// sums of their own pieces. The function maps each deferred sum to the position in
// the sequence at which its memory is free: where the sum that is inFlight buckets
// later starts.
func (s *gradientSums) lifetimes(elemBytes int) func(*graph.Graph, []int) map[int]int {
	return func(g *graph.Graph, sequence []int) map[int]int {
		fill := bucketBuilder{size: s.size}
		parts, last := map[*bucket][]int{}, map[*bucket]int{} // nodes, and the position of the last one
		for at, id := range sequence {
			if n := g.Nodes[id]; n.Op == sumRanksDeferred {
				b := fill.bucketFor(n.Attrs.(deferredSumAttrs).meshAxes.String(), n.ArenaElems()*elemBytes)
				parts[b], last[b] = append(parts[b], id), at
			}
		}
		slices.SortFunc(fill.buckets, func(a, b *bucket) int { return cmp.Compare(last[a], last[b]) })
		if s.firstSum = len(sequence); len(fill.buckets) > 0 {
			s.firstSum = last[fill.buckets[0]]
		}
		until := map[int]int{}
		for k, b := range fill.buckets {
			free := len(sequence)
			if k+inFlight < len(fill.buckets) {
				free = last[fill.buckets[k+inFlight]]
			}
			for _, id := range parts[b] {
				until[id] = free
			}
		}
		return until
	}
}

// assignGroups creates the process groups of the buckets. It is called after all
// kernels are prepared, by all ranks.
func (s *gradientSums) assignGroups(groups map[string]*comm.Comm) error {
	taskGroups := map[string]*comm.Comm{} // tasks need groups of their own: their messages must not match those of kernels
	for _, b := range s.buckets {
		if taskGroups[b.axes] == nil {
			var err error
			if taskGroups[b.axes], err = groups[b.axes].Split(0, groups[b.axes].Rank()); err != nil {
				return err
			}
		}
		b.group, b.pending = taskGroups[b.axes], len(b.grads)
		var pieces []int
		for _, p := range b.grads {
			pieces = append(pieces, optim.ChunkSizes(p.n)...)
		}
		b.cuts = partition(pieces, b.group.Size())
	}
	return nil
}

// partition splits consecutive pieces among ranks into contiguous parts of nearly
// equal size without splitting a piece. It returns the ranks+1 boundaries.
func partition(sizes []int, ranks int) []int {
	total := 0
	for _, n := range sizes {
		total += n
	}
	cuts, at, i := make([]int, ranks+1), 0, 0
	for r := 1; r < ranks; r++ {
		want := total * r / ranks
		for i < len(sizes) && at+sizes[i]/2 < want {
			at += sizes[i]
			i++
		}
		cuts[r] = at
	}
	cuts[ranks] = total
	return cuts
}

// start starts the sum of a bucket after the sums started before it.
func (s *gradientSums) start(b *bucket) error {
	var last *comm.Task
	if n := len(s.tasks); n > 0 {
		last = s.tasks[n-1]
	}
	if k := len(s.tasks) - inFlight; s.sharded && k >= 0 { // the next kernels reuse the memory of this bucket
		begin := time.Now()
		if err := s.tasks[k].Wait(s.c); err != nil {
			return err
		}
		s.costs.Exposed += time.Since(begin)
	}
	t := b.group.Go(last, func(g *comm.Comm) error {
		begin := time.Now()
		defer func() { s.costs.Running += time.Since(begin) }()
		if b.grads[0].x.F64 != nil {
			return sumBucket(s, b, g, func(p bucketGrad) []float64 { return p.x.F64 })
		}
		return sumBucket(s, b, g, func(p bucketGrad) []float32 { return p.x.F32 })
	})
	s.tasks = append(s.tasks, t)
	if s.blocking {
		return t.Wait(s.c)
	}
	return nil
}

// sumBucket sums a bucket over the ranks of a group in place: a reduce-scatter
// followed by an all-gather. With a sharded optimiser the all-gather is omitted
// where every rank of the job takes part, because each rank reads only the sums of
// its own pieces. If only some mesh axes sum (a parameter that is a field), other
// ranks hold other values, and the all-gather remains.
//
// Cost: 2(P−1)/P·n values sent per rank, (P−1)/P·n if sharded.
func sumBucket[T float32 | float64](s *gradientSums, b *bucket, g *comm.Comm, values func(bucketGrad) []T) error {
	var x comm.Parts[T]
	for _, p := range b.grads {
		x = append(x, values(p))
	}
	if err := comm.ReduceScatterParts(g, x, b.cuts, comm.Auto); err != nil {
		return fmt.Errorf("summing gradients: %w", err)
	}
	if !s.sharded || !s.shards.spansAllRanks(b) {
		if err := comm.AllGatherParts(g, x, b.cuts, comm.Auto); err != nil {
			return fmt.Errorf("summing gradients: %w", err)
		}
	}
	if s.sharded {
		for i, p := range b.grads {
			for _, param := range p.params {
				storeGrad(s.shards, param, x[i])
			}
		}
	}
	return nil
}

// finish waits for the sums of a run and returns the first error. A non-nil err is
// the error of a failed kernel; the tasks are then cancelled.
func (s *gradientSums) finish(err error) error {
	begin := time.Now()
	for _, t := range s.tasks {
		if err != nil {
			t.Cancel()
		}
	}
	if n := len(s.tasks); n > 0 { // tasks run in order, so the last one ends last
		if e := s.tasks[n-1].Wait(s.c); err == nil {
			err = e
		}
	}
	s.tasks = s.tasks[:0]
	for _, b := range s.buckets {
		b.pending = len(b.grads)
		for _, p := range b.grads {
			s.costs.Bytes += int64(4*len(p.x.F32) + 8*len(p.x.F64))
		}
	}
	s.costs.Runs++
	s.costs.Exposed += time.Since(begin)
	return err
}
