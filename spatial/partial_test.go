package spatial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// perSample is a network for batches of n samples whose loss is the mean of those of samples.
func perSample(n int) network {
	return network{"per sample", graph.Shape{n, 3, 2, 8, 6}, nil, func(b *graph.Builder, x, _ graph.Value) {
		k, pad := [3]int{3, 3, 3}, op.Conv{Pad: op.Same(3, 3, 3)}
		h := op.ReLU(b, conv(b, "a", x, 6, k, pad))
		h = conv(b, "b", h, 3, k, pad)
		b.Loss(op.Mean(b, op.Mul(b, h, h)))
	}}
}

// The options and the steps of trainings on partial collectives.
const (
	partialSteps = 12
	partialRate  = 0.05
	sampleGroups = 2 // data-parallel groups
	groupSamples = 2
)

var partialOptimizer = optim.Options{Kind: optim.SGD, Momentum: 0.9, Clip: 1}

// groupTraining trains with samples distributed over groups of ranks of a mesh without the
// axis "data". Each group compiles its own share of a batch; before is called before each
// step. It returns the weights.
func groupTraining(c *comm.Comm, m Mesh, o partial.EagerOptions, before func(step int)) (w []float32, err error) {
	me := c.Rank() / m.Size()
	group, err := c.Split(me, c.Rank())
	if err != nil {
		return nil, err
	}
	leaders, err := c.Split(min(0, -group.Rank()), c.Rank())
	if err != nil {
		return nil, err
	}
	n, whole := perSample(groupSamples), perSample(sampleGroups*groupSamples)
	p, err := training{mesh: m}.compile(n, group)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	opt, err := optim.New(p.Store(), partialOptimizer)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opt.Close()) }()
	gradient := p.Store().Grads()
	var leader *partial.Eager
	if leaders != nil {
		if leader, err = partial.NewEager(leaders, len(gradient), o); err != nil {
			return nil, err
		}
		if err := leader.Start(partialSteps); err != nil {
			return nil, err
		}
		defer leader.Cancel() // after an error
	}
	e := partial.NewEagerGroup(group, len(gradient), leader)
	for step := range partialSteps {
		batch := field(uint64(step), whole.x)
		ExtractBox(p.Input("x"), batch[me*n.x.Size():], n.x, p.OwnedBox("x", n.x))
		before(step)
		if err := p.Run(context.Background(), uint64(step)); err != nil {
			return nil, err
		}
		updates, err := e.Step(gradient)
		if err != nil {
			return nil, err
		}
		for _, u := range updates { // one step of the optimiser for each, as on all other ranks
			for i, v := range u.Sum {
				gradient[i] = v / sampleGroups
			}
			if _, err := opt.Step(partialRate); err != nil {
				return nil, err
			}
		}
	}
	return slices.Clone(p.Store().Params()), nil
}

// Groups of shards that exchange gradients by eager-SGD train as the mesh with the axis
// "data" if all steps are synchronous. If ranks are late, all ranks of all groups have the
// same weights at the end, with momentum and clipping.
func TestEagerAmongGroups(t *testing.T) {
	for _, m := range []Mesh{{{Name: "lat", Size: 2}}, {{Name: "lat", Size: 1}}} {
		whole := append(Mesh{{Name: "data", Size: sampleGroups}}, m...)
		var want []float32
		err := comm.Run(whole.Size(), comm.Parallel, func(c *comm.Comm) (err error) {
			n := perSample(sampleGroups * groupSamples)
			p, err := training{mesh: whole}.compile(n, c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			opt, err := optim.New(p.Store(), partialOptimizer)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, opt.Close()) }()
			for step := range partialSteps {
				ExtractBox(p.Input("x"), field(uint64(step), n.x), n.x, p.OwnedBox("x", n.x))
				if err := p.Run(context.Background(), uint64(step)); err != nil {
					return err
				}
				if _, err := opt.Step(partialRate); err != nil {
					return err
				}
			}
			if c.Rank() == 0 {
				want = slices.Clone(p.Store().Params())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		train := func(o partial.EagerOptions, delay time.Duration) [][]float32 {
			weights := make([][]float32, whole.Size())
			err := comm.Run(whole.Size(), comm.Parallel, func(c *comm.Comm) (err error) {
				random := rand.New(rand.NewPCG(uint64(c.Rank()/m.Size()), 1))
				weights[c.Rank()], err = groupTraining(c, m, o, func(int) { time.Sleep(time.Duration(random.Int64N(1 + int64(delay)))) })
				return err
			})
			if err != nil {
				t.Fatalf("%v, %+v: %v", whole, o, err)
			}
			for r, w := range weights {
				if !slices.Equal(w, weights[0]) {
					t.Errorf("%v, %+v: rank %d has other weights than rank 0", whole, o, r)
				}
			}
			return weights
		}
		if d := distance(train(partial.EagerOptions{Period: 1}, 0)[0], want); d > 1e-6 {
			t.Errorf("%v: synchronous steps differ from those of the mesh by %.2g", whole, d)
		}
		for _, o := range []partial.EagerOptions{{Period: 5}, {Initiator: partial.Majority, Period: 5}} {
			if d := distance(train(o, 5*time.Millisecond)[0], want); d > 0.2 || fmt.Sprint(d) == "NaN" {
				t.Errorf("%v, %+v: weights differ from those of synchronous steps by %.2g", whole, o, d)
			}
		}
	}
}
