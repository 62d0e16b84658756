package spatial

import (
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
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// trainOn takes steps of an optimiser on ranks of this process, and gives the store of
// rank 0. with changes the sums before anything is compiled; nil options take the
// gradients and move nothing.
func (n network) trainOn(t testing.TB, m Mesh, mode comm.Mode, steps int, with func(*gradientSums), sharded bool, o *optim.Options) (*engine.Store, error) {
	g := n.graph(t)
	var first *engine.Store
	err := comm.Run(m.Size(), mode, func(c *comm.Comm) (err error) {
		p, err := compile(g, c, m, engine.Options{Backend: "ref"}, with)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		var opt *optim.Optimizer
		if o != nil {
			o := *o
			if o.EMA > 0 {
				o.Average = engine.NewStore()
				if q, err := engine.Compile(g, engine.Options{Backend: "ref", Store: o.Average}); err != nil || q.Close() != nil {
					return fmt.Errorf("laying out the average: %w", err)
				}
			}
			if sharded {
				if o.Ranks, err = p.Shards(); err != nil {
					return err
				}
			}
			if opt, err = optim.New(p.Store(), o); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, opt.Close()) }()
			if c.Rank() == 0 && o.Average != nil {
				defer func() { copy(p.Store().Grads(), o.Average.Params()) }()
			}
		}
		for step := range uint64(steps) {
			for name, s := range map[string]graph.Shape{"x": n.x, "y": n.y} {
				if s != nil {
					Take(p.Input(name), field(step+uint64(name[0]), s), s, p.Part(name, s))
				}
			}
			if err := p.Run(context.Background(), step); err != nil {
				return err
			}
			if opt == nil {
				continue
			}
			if step%3 == 1 { // gathered over two runs
				opt.Add(0.25)
				if err := p.Run(context.Background(), step+100); err != nil {
					return err
				}
				opt.Add(0.75)
			}
			if _, err := opt.Step(0.02); err != nil {
				return err
			}
		}
		if opt != nil {
			if err := opt.GatherAverage(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			first = p.Store()
		}
		return comm.Barrier(c)
	})
	return first, err
}

// wide is a network of many parameters on few points: its filters have several pieces,
// its first buckets are full before the backward pass ends, and halos travel meanwhile.
func wide() network {
	return network{"wide", graph.Shape{3, 9, 1, 4, 4}, nil, func(b *graph.Builder, x, _ graph.Value) {
		k, pad := [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)}
		h := conv(b, "a", x, 29, k, pad)
		h = conv(b, "b", h, 571, [3]int{1, 1, 1}, op.Conv{})
		h = conv(b, "c", h, 5, k, pad)
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
}

// Gradients have the same bits whether their sums run beside the backward pass or one
// by one between its operations, in every order of messages; buckets of other sizes
// change them by rounding at most, and not at all on 2, 4 or 8 ranks.
func TestBuckets(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for _, n := range []network{wide(), unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, false)} {
		for _, m := range []Mesh{{{"lon", 2}}, {{"lon", 3}}, {{"data", 2}, {"lat", 2}}} {
			small := func(s *gradientSums) { s.size = 4000 }
			inTurn := func(s *gradientSums) { s.size, s.inTurn = 4000, true }
			want, err := n.trainOn(t, m, comm.Free, 2, inTurn, false, nil)
			if err != nil {
				t.Fatal(n.name, m, err)
			}
			for seed := range seeds + 1 {
				mode := comm.Replay(seed)
				if seed == seeds {
					mode = comm.Free
				}
				got, err := n.trainOn(t, m, mode, 2, small, false, nil)
				if err != nil {
					t.Fatal(n.name, m, mode, err)
				}
				if !slices.Equal(got.Grads(), want.Grads()) {
					t.Errorf("%s on %v, %v: other bits than without overlap", n.name, m, mode)
				}
			}
			one, err := n.trainOn(t, m, comm.Free, 2, nil, false, nil)
			if err != nil {
				t.Fatal(n.name, m, err)
			}
			if d := distance(one.Grads(), want.Grads()); d > 1e-6 || d > 0 && m.Size() != 3 {
				t.Errorf("%s on %v: buckets of another size change the gradient by %.2g", n.name, m, d)
			}
		}
	}
}

// Buckets are filled in the order of the backward pass up to their size, by axes; only
// gradients that no operation reads wait in them.
func TestBucketsAreFilledInOrder(t *testing.T) {
	g := wide().graph(t)
	err := comm.Run(2, comm.Free, func(c *comm.Comm) error {
		p, err := compile(g, c, Mesh{{"lon", 2}}, engine.Options{Backend: "ref"}, func(s *gradientSums) { s.size = 4 * 3000 })
		if err != nil {
			return err
		}
		defer p.Close()
		var got [][]string
		for _, b := range p.sums.buckets {
			var names []string
			for _, x := range b.parts {
				names = append(names, x.params...)
			}
			got = append(got, names)
		}
		want := "[[c.bias c] [b.bias b] [a.bias a]]"
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

// A rank that is lost while a sum is under way ends the run of the others, which name
// it: neither they nor their tasks hang.
func TestLostDuringASum(t *testing.T) {
	n := wide()
	g := n.graph(t)
	for _, mode := range []comm.Mode{comm.Free, comm.Replay(3)} {
		gone := errors.New("gone")
		seen := make([]error, 3)
		err := comm.Run(3, mode, func(c *comm.Comm) error {
			p, err := compile(g, c, Mesh{{"data", 3}}, engine.Options{Backend: "ref"}, func(s *gradientSums) { s.size = 4000 })
			if err != nil {
				return err
			}
			defer p.Close()
			if c.Rank() == 2 { // it computes, and never sums
				for _, k := range p.sums.buckets {
					k.missing = math.MaxInt
				}
				if err := p.Run(context.Background(), 0); err != nil {
					return err
				}
				return gone
			}
			seen[c.Rank()] = p.Run(context.Background(), 0)
			return seen[c.Rank()]
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

// A kernel that fails while sums are under way ends the run of its rank at once: what
// its tasks wait for fails too.
func TestFailedKernelCancelsSums(t *testing.T) {
	broken := errors.New("broken")
	err := comm.Run(2, comm.Free, func(c *comm.Comm) error {
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

// Ranks that share an optimiser move the parameters, and their average, to the bits to
// which each would move them alone, by every optimiser, and keep a part of its moments.
func TestShards(t *testing.T) {
	for _, m := range []Mesh{{{"lon", 2}}, {{"lon", 3}}, {{"data", 2}, {"lat", 2}}} {
		for _, kind := range optim.Kinds {
			o := optim.Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 0.5, EMA: 0.9, NoDecay: optim.Biases}
			n, steps := wide(), 20
			if testing.Short() {
				steps = 4
			}
			small := func(s *gradientSums) { s.size = 4000 }
			want, err := n.trainOn(t, m, comm.Free, steps, small, false, &o)
			if err != nil {
				t.Fatal(m, kind, err)
			}
			got, err := n.trainOn(t, m, comm.Free, steps, small, true, &o)
			if err != nil {
				t.Fatal(m, kind, err)
			}
			if !slices.Equal(got.Params(), want.Params()) {
				t.Errorf("%s on %v: parameters differ by %.2g", kind, m, distance(got.Params(), want.Params()))
			}
			if !slices.Equal(got.Grads(), want.Grads()) { // where trainOn leaves the average
				t.Errorf("%s on %v: the average differs", kind, m)
			}
			if slices.Equal(got.Grads(), got.Params()) {
				t.Errorf("%s on %v: the average is the last value", kind, m)
			}
		}
	}
}

// Every piece has one owner, and owners have nearly equal shares; parameters that are
// fields, and those summed over some axes only, are dealt out too.
func TestOwners(t *testing.T) {
	fields := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, false) // with a map
	for _, n := range []network{wide(), fields} {
		g := n.graph(t)
		for _, m := range []Mesh{{{"lon", 2}}, {{"lon", 3}}, {{"level", 2}, {"lat", 2}}, {{"data", 2}, {"lat", 2}, {"lon", 2}}} {
			if !n.fits(m) {
				continue
			}
			all := make([][]int, m.Size())
			err := comm.Run(m.Size(), comm.Free, func(c *comm.Comm) error {
				p, err := compile(g, c, m, engine.Options{Backend: "ref"}, func(s *gradientSums) { s.size = 4000 })
				if err != nil {
					return err
				}
				defer p.Close()
				s, err := p.Shards()
				if err != nil {
					return err
				}
				all[c.Rank()] = s.Owners()
				share := make([]int, c.Size())
				total, largest := 0, 0
				for i, x := range optim.Pieces(p.Store()) {
					share[s.Owners()[i]] += x.Hi - x.Lo
					total, largest = total+x.Hi-x.Lo, max(largest, x.Hi-x.Lo)
				}
				if slices.Max(share) > total/c.Size()+largest*len(s.chunks) {
					return fmt.Errorf("shares %v of %d", share, total)
				}
				x := make([]float32, len(p.Store().Params()))
				want := make([]float32, len(x))
				for i, k := range optim.Pieces(p.Store()) {
					for j := k.Lo; j < k.Hi; j++ {
						if want[j] = float32(j); s.Owners()[i] == c.Rank() {
							x[j] = float32(j)
						}
					}
				}
				if err := s.Gather(x); err != nil {
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
