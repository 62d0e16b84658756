package spatial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// training configures some optimiser steps on a mesh.
type training struct {
	mesh    Mesh
	steps   int
	size    int  // bytes per bucket; 0 is the default
	inTurn  bool // wait for each sum before the next kernel
	sharded bool
	device  string // empty: ref
	sparse  *Compression
	// optimizer, if not nil, moves the parameters.
	optimizer *optim.Options
}

// smallBuckets is a bucket size for which the network wide has several buckets.
const smallBuckets = 4000

// compile compiles the part of a rank.
func (r training) compile(n network, c *comm.Comm) (*Plan, error) {
	g, err := n.built()
	if err != nil {
		return nil, err
	}
	return compile(g, c, r.mesh, engine.Options{Device: engine.Device{Backend: cmp.Or(r.device, "ref")}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}, func(p *Plan) {
		if r.size > 0 {
			p.sums.size = r.size
		}
		p.sums.blocking, p.sums.sharded, p.sums.compression = r.inTurn, r.sharded, r.sparse
	})
}

// outcome is the result of a training.
type outcome struct{ grads, params, average []float32 }

// on runs the steps on a rank of c.
func (r training) on(c *comm.Comm, n network) (out outcome, err error) {
	p, err := r.compile(n, c)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	move := func(uint64) error { return nil }
	average := engine.NewStore()
	if r.optimizer != nil {
		o := *r.optimizer
		if o.EMA > 0 {
			g, err := n.built()
			if err != nil {
				return out, err
			}
			q, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Reuse: engine.Reuse{Store: average}})
			if err != nil {
				return out, err
			}
			if err := q.Close(); err != nil {
				return out, err
			}
			o.Average = average
		}
		if r.sharded {
			o.Ranks = p.Shards()
		}
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, opt.Close()) }()
		move = func(step uint64) error {
			if step%3 == 1 { // gathered over two runs
				opt.Accumulate(0.25)
				if err := p.Run(context.Background(), step+100); err != nil {
					return err
				}
				opt.Accumulate(0.75)
			}
			if _, err := opt.Step(0.02); err != nil {
				return err
			}
			return opt.AllGatherAverage()
		}
	}
	for step := range uint64(r.steps) {
		for name, s := range map[string]graph.Shape{"x": n.x, "y": n.y} {
			if s != nil {
				ExtractBox(p.Input(name), field(step+uint64(name[0]), s), s, p.OwnedBox(name, s))
			}
		}
		if err := p.Run(context.Background(), step); err != nil {
			return out, err
		}
		if err := move(step); err != nil {
			return out, err
		}
	}
	return outcome{p.Store().Grads(), p.Store().Params(), average.Params()}, comm.Barrier(c)
}

// inProcess runs the steps on ranks of this process and returns the result of rank
// 0.
func (r training) inProcess(t testing.TB, n network, mode comm.Mode) (first outcome) {
	t.Helper()
	err := comm.Run(r.mesh.Size(), mode, func(c *comm.Comm) error {
		out, err := r.on(c, n)
		if c.Rank() == 0 {
			first = out
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s on %v, %v: %v", n.name, r.mesh, mode, err)
	}
	return first
}

// wide is a network with many parameters on few points. Its filters have several
// pieces, its first buckets are full before the backward pass ends, and halos are
// in transit at the same time.
func wide() network {
	return network{"wide", graph.Shape{3, 9, 1, 3, 3}, nil, func(b *graph.Builder, x, _ graph.Value) {
		k, pad := [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)}
		h := conv(b, "a", x, 29, k, pad)
		h = conv(b, "b", h, 571, [3]int{1, 1, 1}, op.Conv{})
		h = conv(b, "c", h, 5, k, pad)
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
}

// Gradients have the same bits whether their sums run during the backward pass or
// one by one between operations, in every order of messages. Other bucket sizes
// change them by rounding only, and not at all on 2, 4 or 8 ranks.
func TestBuckets(t *testing.T) { bucketsOfSeeds(t, 2) }

func bucketsOfSeeds(t *testing.T, seeds uint64) {
	for _, n := range []network{wide(), unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false)} {
		for _, m := range []Mesh{{{Name: "lon", Size: 2}}, {{Name: "lon", Size: 3}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}} {
			r := training{mesh: m, steps: 2, size: smallBuckets}
			inTurn := r
			inTurn.inTurn = true
			want := inTurn.inProcess(t, n, comm.Parallel).grads
			for seed := range seeds {
				if !slices.Equal(r.inProcess(t, n, comm.Replay(seed)).grads, want) {
					t.Errorf("%s on %v, seed %d: bits differ from a run without overlap", n.name, m, seed)
				}
			}
			if !slices.Equal(r.inProcess(t, n, comm.Parallel).grads, want) {
				t.Errorf("%s on %v: bits differ from a run without overlap", n.name, m)
			}
			r.size = 0
			if d := distance(r.inProcess(t, n, comm.Parallel).grads, want); d > 1e-6 || d > 0 && m.Size() != 3 {
				t.Errorf("%s on %v: buckets of another size change the gradient by %.2g", n.name, m, d)
			}
		}
	}
}

// A bucket is a sixteenth of all gradients, between the limits, and has a chunk for each
// rank.
func TestBucketBytes(t *testing.T) {
	for _, c := range []struct{ gradients, ranks, want int }{
		{100, 2, 1 << 20}, {64 << 20, 2, 4 << 20}, {64 << 20, 128, 8 << 20}, {64 << 20, 4096, 25 << 20}, {1 << 30, 2, 25 << 20}} {
		if got := bucketBytes(c.gradients, c.ranks); got != c.want {
			t.Errorf("%d bytes of gradients on %d ranks: buckets of %d bytes, want %d", c.gradients, c.ranks, got, c.want)
		}
	}
}

// At each position of a step of a sharded optimiser the unreduced gradients fit into
// liveBuckets, or into the largest bucket, and a sum whose memory is reused has ended
// before.
func TestPlannedGradients(t *testing.T) {
	m := Mesh{{Name: "data", Size: 2}}
	for _, n := range []network{wide(), unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false)} {
		g, err := n.built()
		if err != nil {
			t.Fatal(err)
		}
		whole, err := WholeStep(g, 0)
		if err != nil {
			t.Fatal(err)
		}
		step, err := CompileRank(whole, m, 0, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 300, smallBuckets, 1 << 20} {
			memory, ended := planGradients(step.Graph, step.Sequence, size, 4)
			fill, started, largest := bucketBuilder{size: size}, 0, 0
			bucketOf, left := map[int]*bucket{}, map[*bucket]int{}
			for _, id := range step.Sequence {
				if n := step.Graph.Nodes[id]; n.Op == sumRanksDeferred {
					b := fill.bucketFor(n.Attrs.(deferredSumAttrs).kind(), 4*n.Shape.Size())
					bucketOf[id] = b
					left[b]++
				}
			}
			for _, b := range fill.buckets {
				largest = max(largest, b.bytes)
			}
			var order []*bucket // in which sums start
			for at, id := range step.Sequence {
				if b := bucketOf[id]; b != nil {
					if left[b]--; left[b] == 0 {
						order = append(order, b)
						started++
					}
				}
				live := 0
				for other, b := range bucketOf {
					switch {
					case memory.FreeAfter[other] < at && slices.Index(order, b) >= ended[started-1]:
						t.Fatalf("%s, buckets of %d bytes, position %d: the memory of %s is free before its sum has ended", n.name, size, at, step.Graph.Nodes[other].Label())
					case slices.Index(step.Sequence, other) <= at && at <= memory.FreeAfter[other]:
						live += 4 * step.Graph.Nodes[other].Shape.Size()
					}
				}
				if most := max(liveBuckets*size, largest); live > most {
					t.Fatalf("%s, buckets of %d bytes, position %d: %d bytes of gradients are in memory, want %d at most", n.name, size, at, live, most)
				}
			}
			if started != len(ended) {
				t.Errorf("%s, buckets of %d bytes: %d sums, %d planned", n.name, size, started, len(ended))
			}
		}
	}
}

// Buckets are filled in the order of the backward pass up to their size, by mesh
// axes. Only gradients without another reader are deferred.
func TestBucketsAreFilledInOrder(t *testing.T) {
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		p, err := training{mesh: Mesh{{Name: "lon", Size: 2}}, size: smallBuckets}.compile(wide(), c)
		if err != nil {
			return err
		}
		defer p.Close()
		var got [][]string
		for _, b := range p.sums.buckets {
			var names []string
			for _, x := range b.grads {
				names = append(names, x.params...)
			}
			got = append(got, names)
		}
		want := "[[c.bias c] [b.bias] [b] [a.bias a]]"
		if fmt.Sprint(got) != want {
			return fmt.Errorf("buckets %v, want %s", got, want)
		}
		for range 3 {
			if err := p.Run(context.Background(), 0); err != nil {
				return err
			}
		}
		var bytes int64
		for _, e := range p.Store().Entries() {
			bytes += int64(8 * e.Size()) // ref keeps float64
		}
		if k := p.SumCosts(); k.Runs != 3 || k.Bytes != 3*bytes || k.Running <= 0 || k.Exposed <= 0 {
			return fmt.Errorf("costs %+v of 3 runs with %d bytes of gradients", k, bytes)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// runAndLose runs a step in which one rank computes but never sums.
func runAndLose(c *comm.Comm, lost int) error {
	p, err := training{mesh: Mesh{{Name: "data", Size: 3}}, size: smallBuckets}.compile(wide(), c)
	if err != nil {
		return err
	}
	defer p.Close()
	if c.Rank() == lost {
		for _, k := range p.sums.buckets {
			k.pending = math.MaxInt
		}
	}
	return p.Run(context.Background(), 0)
}

// If a rank is lost during a sum, the runs of the others fail with its number.
// Neither they nor their tasks hang.
func TestLostDuringASum(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(3)} {
		gone := errors.New("gone")
		seen := make([]error, 3)
		err := comm.Run(3, mode, func(c *comm.Comm) error {
			err := runAndLose(c, 2)
			if err == nil {
				return gone
			}
			seen[c.Rank()] = err
			return err
		})
		if !errors.Is(err, gone) {
			t.Errorf("%v: %v", mode, err)
		}
		for r, e := range seen[:2] {
			var other *comm.RankError
			if !errors.As(e, &other) {
				t.Errorf("%v: rank %d ends with %v", mode, r, e)
			}
		}
	}
}

// If a kernel fails during sums, the run of its rank ends at once, and its tasks
// fail.
func TestFailedKernelCancelsSums(t *testing.T) {
	broken := errors.New("broken")
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		s := newGradientSums(c)
		x := make([]float32, 1)
		s.tasks = append(s.tasks, c.Go(nil, func(g *comm.Comm) error { return g.Recv(1-g.Rank(), 0, x).Wait() }))
		if err := s.finish(broken); err != broken {
			return fmt.Errorf("finish: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A sharded optimiser updates the parameters and their average to the same bits as
// an unsharded one, for every optimiser.
func TestShards(t *testing.T) { shards(t, 5) }

func shards(t *testing.T, most int) {
	for _, c := range []struct {
		mesh  Mesh
		steps int
	}{{Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 2}}, 20}, {Mesh{{Name: "lon", Size: 3}}, 4}} {
		for _, kind := range optim.Kinds {
			r := training{mesh: c.mesh, steps: min(c.steps, most), size: smallBuckets,
				optimizer: &optim.Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 0.5, EMA: 0.9}}
			want := r.inProcess(t, wide(), comm.Parallel)
			r.sharded = true
			got := r.inProcess(t, wide(), comm.Parallel)
			if !slices.Equal(got.params, want.params) || !slices.Equal(got.average, want.average) {
				t.Errorf("%s on %v: parameters differ by %.2g, their average by %.2g", kind, c.mesh, distance(got.params, want.params), distance(got.average, want.average))
			}
			if slices.Equal(got.average, got.params) {
				t.Errorf("%s on %v: the average is the last value", kind, c.mesh)
			}
		}
	}
}

// The same on the CPU backend, whose arena is reused by gradients, workspaces and
// the rank's pieces, with several buckets in progress. The gradient store needs no
// memory.
func TestShardsOnCPU(t *testing.T) {
	for _, n := range []network{wide(), unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false)} {
		for _, m := range []Mesh{{{Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}} {
			r := training{mesh: m, steps: 4, size: smallBuckets, device: "cpu",
				optimizer: &optim.Options{Kind: optim.LAMB, Decay: 0.01, Clip: 0.5, EMA: 0.9}}
			var bytes [2]int64
			var params [2][]float32
			for i := range params {
				r.sharded = i == 1
				err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
					p, err := r.compile(n, c)
					if err != nil {
						return err
					}
					if c.Rank() == 0 {
						bytes[i] = p.MemoryBytes() + p.Store().Bytes()
					}
					if outside := p.MemoryBytes() - p.ArenaBytes(); outside > p.ScratchBytes() {
						return fmt.Errorf("%d bytes outside of the arena, %d of them workspace: the rank's gradients are not in the plan", outside, p.ScratchBytes())
					}
					return p.Close()
				})
				if exit.CodeOf(err) == exit.NoDevice {
					t.Skip("skipped: no device: ", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				params[i] = r.inProcess(t, n, comm.Parallel).params
			}
			if !slices.Equal(params[0], params[1]) {
				t.Errorf("%s on %v: parameters differ by %.2g", n.name, m, distance(params[0], params[1]))
			}
			if whole := int64(4 * len(params[0])); bytes[0]-bytes[1] < whole/3 {
				t.Errorf("%s on %v: %d bytes, %d with gradients of %d bytes in pieces", n.name, m, bytes[0], bytes[1], whole)
			}
		}
	}
}

// Every piece has one owner, and owners have nearly equal shares. Parameters that
// are fields, and those summed over some mesh axes only, are distributed too.
func TestOwners(t *testing.T) {
	fields := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false) // with a map
	for _, n := range []network{wide(), fields} {
		for _, m := range []Mesh{{{Name: "lon", Size: 2}}, {{Name: "lon", Size: 3}}, {{Name: "level", Size: 2}, {Name: "lat", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 2}}} {
			if !n.fits(m) {
				continue
			}
			all := make([][]int, m.Size())
			err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
				p, err := training{mesh: m, size: smallBuckets, sharded: true}.compile(n, c)
				if err != nil {
					return err
				}
				defer p.Close()
				s := p.Shards()
				all[c.Rank()] = s.Owners()
				share := make([]int, c.Size())
				total, largest := 0, 0
				for i, x := range optim.Chunks(p.Store()) {
					share[s.Owners()[i]] += x.Hi - x.Lo
					total, largest = total+x.Hi-x.Lo, max(largest, x.Hi-x.Lo)
				}
				if slices.Max(share) > total/c.Size()+largest*(len(p.sums.buckets)+1) {
					return fmt.Errorf("shares %v of %d", share, total)
				}
				x := make([]float32, len(p.Store().Params()))
				want := make([]float32, len(x))
				for i, k := range optim.Chunks(p.Store()) {
					for j := k.Lo; j < k.Hi; j++ {
						if want[j] = float32(j); s.Owners()[i] == c.Rank() {
							x[j] = float32(j)
						}
					}
				}
				if err := s.AllGather(x); err != nil {
					return err
				}
				if !slices.Equal(x, want) {
					return errors.New("what is gathered is not what the owners have")
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s on %v: %v", n.name, m, err)
			}
			for r := range all {
				if !slices.Equal(all[r], all[0]) {
					t.Errorf("%s on %v: rank %d sees other owners", n.name, m, r)
				}
			}
		}
	}
}
