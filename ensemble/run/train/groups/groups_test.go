package groups

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// rate of the steps of tests: exact in binary.
const rate = 1.0 / 8

// rank is a rank of a test with a network of one parameter, which starts with 0, and one statistic.
type rank struct {
	*team.SampleGroups
	Network
	all *team.Team
}

// parameter is the value of the parameter.
func (r rank) parameter() float32 { return r.Store.Params()[0] }

// step computes a share with a gradient and takes the steps that follow; losses are added to a list.
func (r rank) step(e *Exchange, gradient float32, s Share, losses *[]float64) error {
	r.Optimizer.SetGradient([]float32{gradient})
	_, err := e.Step(r.Network, s, func(loss, _ float64) error {
		if losses != nil {
			*losses = append(*losses, loss)
		}
		_, err := r.Optimizer.Step(rate)
		return err
	})
	return err
}

// network returns the network of a rank.
func network(momentum float64) (Network, error) {
	b := graph.New(1)
	w, s := b.Param("w", graph.Shape{1}, graph.Zeros()), b.State("s", graph.Shape{1}, graph.Zeros())
	b.Loss(op.Sum(b, op.Add(b, w, s)))
	g, err := b.Build()
	if err != nil {
		return Network{}, err
	}
	store := engine.NewStore()
	p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Reuse: engine.Reuse{Store: store}})
	if err != nil {
		return Network{}, err
	}
	if err := p.Close(); err != nil {
		return Network{}, err
	}
	o, err := optim.New(store, optim.Options{Kind: optim.SGD, Momentum: momentum})
	return Network{Store: store, Optimizer: o}, err
}

// onRanks calls f on the ranks of a mesh, with an exchange, and reports its error.
func onRanks(t *testing.T, mesh string, momentum float64, c config.Exchange, f func(r rank, e *Exchange) error) {
	t.Helper()
	if err := runRanks(mesh, momentum, c, f); err != nil {
		t.Errorf("%s, %+v: %v", mesh, c, err)
	}
}

func runRanks(mesh string, momentum float64, c config.Exchange, f func(r rank, e *Exchange) error) error {
	m, err := spatial.ParseMesh(mesh)
	if err != nil {
		return err
	}
	return comm.Run(m.Size(), comm.Parallel, func(world *comm.Comm) error {
		all := team.New(world)
		all.Mesh = m
		g, err := all.SplitSamples()
		if err != nil {
			return err
		}
		n, err := network(momentum)
		if err != nil {
			return err
		}
		e, err := New(g, c, n, Begin{Seed: 1})
		if err != nil {
			return err
		}
		defer e.Cancel()
		return errors.Join(f(rank{g, n, all}, e), n.Optimizer.Close())
	})
}

// The gradient of a sum on which all groups are is that of the whole batch: two groups with weights 1 and 3, and losses
// (w−c)²/2 for c = 0 and 4, descend (w−3)²/2. A group without samples changes nothing.
func TestEagerWeighsShares(t *testing.T) {
	for _, mesh := range []string{"data:3", "data:3 lat:2", "lon:2 data:3"} {
		onRanks(t, mesh, 0, config.Exchange{System: config.EagerExchange, Period: 1}, func(r rank, e *Exchange) error {
			const steps = 3
			weight, c := []float64{1, 3, 0}[r.Index()], []float32{0, 4, 100}[r.Index()]
			if err := e.Start(steps); err != nil {
				return err
			}
			w := float32(0)
			for range steps {
				var losses []float64
				loss := func(c float32) float64 { d := float64(w - c); return d * d / 2 }
				if err := r.step(e, w-c, Share{Loss: loss(c), Weight: weight, Samples: 1}, &losses); err != nil {
					return err
				}
				want := fmt.Sprint([]float64{float64(float32((loss(0) + 3*loss(4)) / 4))})
				if w -= rate * (w - 3); r.parameter() != w || fmt.Sprint(losses) != want {
					return fmt.Errorf("w is %g after losses %v, want %g and %s", r.parameter(), losses, w, want)
				}
			}
			late, err := e.Late()
			if late.Late != 0 || late.Steps != steps || late.Share != 0 {
				err = errors.Join(err, fmt.Errorf("late contributions %+v", late))
			}
			return errors.Join(err, e.Align(r.Network, steps), r.CheckSame(r.all))
		})
	}
}

// Late gradients count once, whenever they arrive: with gradients that do not depend on w, all of them lead to the same w.
func TestEagerLosesNothing(t *testing.T) {
	for _, initiator := range []string{"solo", config.MajorityInitiator} {
		onRanks(t, "data:4", 0, config.Exchange{System: config.EagerExchange, Initiator: initiator, Period: 5}, func(r rank, e *Exchange) error {
			const steps = 15
			updates, late := 0, 0.0
			for range steps / 5 {
				if err := e.Start(5); err != nil {
					return err
				}
				for i := range 5 {
					if r.Index() == i%4 { // another group is slow in each step
						time.Sleep(20 * time.Millisecond)
					}
					var losses []float64
					if err := r.step(e, float32(1+r.Index()), Share{Weight: 2, Samples: 1}, &losses); err != nil {
						return err
					}
					updates += len(losses)
				}
				n, err := e.Late()
				if late += n.Late; err != nil {
					return err
				}
			}
			if want := float32(-rate * steps * (1 + 2 + 3 + 4) / 4); r.parameter() != want || updates != steps {
				return fmt.Errorf("w is %g after %d updates, want %g", r.parameter(), updates, want)
			}
			if late == 0 {
				return errors.New("no contribution was late")
			}
			return nil
		})
	}
}

// Gradients of steps that late groups leave out are in no sum, those of the others in one, and all ranks of a group leave the same out.
// A model in place of gradients ends equal on all ranks, with the number of steps of all groups.
func TestSkips(t *testing.T) {
	const steps, period = 15, 5
	for _, system := range []string{config.EagerExchange, config.WAGMAExchange} {
		for _, mesh := range []string{"data:4", "data:2 lat:2"} {
			var late atomic.Bool
			skip := func(delay time.Duration) {
				onRanks(t, mesh, 0.5, config.Exchange{System: system, Initiator: "solo", Period: period, Group: 2, Skip: true}, func(r rank, e *Exchange) error {
					left := make([]int, r.Count())
					sum := float32(0)
					for run := range steps / period {
						if err := e.Start(period); err != nil {
							return err
						}
						for i := 0; i < period; i++ {
							if r.Index() == i%r.Count() {
								time.Sleep(delay)
							}
							r.Optimizer.SetGradient([]float32{float32(1 + r.Index())})
							skipped, err := e.Step(r.Network, Share{Weight: 2, Samples: 1}, func(float64, float64) error {
								g := []float32{0}
								r.Optimizer.AddScaledGradient(g, 1)
								sum += g[0]
								_, err := r.Optimizer.Step(rate)
								return err
							})
							if err != nil {
								return err
							}
							i += skipped
						}
						if err := e.Align(r.Network, uint64((run+1)*period)); err != nil {
							return err
						}
						l, err := e.Late()
						if err != nil || l.Steps != period {
							return fmt.Errorf("late contributions %+v: %w", l, err)
						}
						for i, n := range l.Skipped {
							left[i] += n
						}
					}
					all, skipped := float32(0), 0
					for i, n := range left {
						all += float32((1+i)*(steps-n)) / float32(r.Count())
						skipped += n
					}
					late.Store(late.Load() || skipped > 0)
					if r.Optimizer.Steps() != steps || system == config.EagerExchange && sum != all {
						return fmt.Errorf("%d optimiser steps with gradients %g in all, want %d and %g without the left out %v", r.Optimizer.Steps(), sum, steps, all, left)
					}
					return r.CheckSame(r.all)
				})
			}
			// On a busy machine the other ranks may be as late.
			for delay := 20 * time.Millisecond; !late.Load() && !t.Failed(); delay *= 5 {
				if delay > 3*time.Second {
					t.Fatalf("%s, %s: no rank was late", system, mesh)
				}
				skip(delay)
			}
		}
	}
}

// Models that are averaged in every step, from shares of 2, 1 and 1 of 4/3 samples in the mean, are that of a step with the
// mean gradient of samples, with momentum too.
func TestAveragesWeighSamples(t *testing.T) {
	for _, c := range []config.Exchange{{System: config.WAGMAExchange, Period: 1, Group: 4}, {System: config.LocalExchange, Period: 1, Rate: 1}} {
		onRanks(t, "data:4 lat:2", 0.5, c, func(r rank, e *Exchange) error {
			w, v := float32(0), float32(0)
			for i := range 3 {
				if err := e.Start(1); err != nil {
					return err
				}
				samples, gradient := []float64{2, 1, 1, 0}[r.Index()], []float32{4, 8, 16, 1000}[r.Index()]
				if err := r.step(e, gradient, Share{Samples: samples}, nil); err != nil {
					return err
				}
				if err := e.Align(r.Network, uint64(i+1)); err != nil {
					return err
				}
				v = v/2 + (2*4+8+16)/4
				if w -= rate * v; r.parameter() != w {
					return fmt.Errorf("w is %g, want %g", r.parameter(), w)
				}
			}
			return r.CheckSame(r.all)
		})
	}
}

// Local SGD takes an outer step for each run: with momentum v from gradient Δ = rate·Σg, w = w − 0.5·(Δ + 0.5 v). Its state
// is the velocity.
func TestLocalOuterStep(t *testing.T) {
	onRanks(t, "data:2", 0, config.Exchange{System: config.LocalExchange, Period: 4, Rate: 0.5, Momentum: 0.5}, func(r rank, e *Exchange) error {
		e.Velocity()[0] = 8 // of a training that continues
		w, v := float32(0), float32(8)
		for _, steps := range []int{4, 2} {
			if err := e.Start(steps); err != nil {
				return err
			}
			for range steps {
				if err := r.step(e, float32(2*r.Index()), Share{Samples: 1}, nil); err != nil {
					return err
				}
			}
			delta := rate * float32(steps) // of the mean gradient 1
			v = v/2 + delta
			w -= (delta + v/2) / 2
			if r.parameter() != w || e.Velocity()[0] != v {
				return fmt.Errorf("w is %g and the velocity %g, want %g and %g", r.parameter(), e.Velocity()[0], w, v)
			}
		}
		return nil
	})
}

// After a run statistics are the mean of groups, and moments of optimisers that differ too.
func TestAlign(t *testing.T) {
	for _, c := range []config.Exchange{{System: config.EagerExchange, Period: 2}, {System: config.WAGMAExchange, Period: 2, Group: 1}} {
		onRanks(t, "data:2", 0.5, c, func(r rank, e *Exchange) error {
			if err := e.Start(1); err != nil {
				return err
			}
			if err := r.step(e, float32(4*r.Index()), Share{Weight: 1, Samples: 1}, nil); err != nil {
				return err
			}
			r.Store.States()[0] = float32(2 + 4*r.Index())
			if err := e.Align(r.Network, 1); err != nil {
				return err
			}
			moments, err := r.Optimizer.State()
			if err != nil {
				return err
			}
			if s, v := r.Store.States()[0], moments[0].Values[0]; s != 4 || v != 2 {
				return fmt.Errorf("%s: the statistic is %g and the velocity %g, want 4 and 2", c.System, s, v)
			}
			return nil
		})
	}
}

// Weights that differ are found on all ranks.
func TestCheckSame(t *testing.T) {
	onRanks(t, "data:3", 0, config.Exchange{System: config.EagerExchange, Period: 2}, func(r rank, _ *Exchange) error {
		if err := r.CheckSame(r.all); err != nil {
			return err
		}
		if r.Index() == 1 {
			r.Store.Params()[0]++
		}
		if err := r.CheckSame(r.all); exit.CodeOf(err) != exit.RankLost {
			return fmt.Errorf("other weights: %v", err)
		}
		return nil
	})
}

// An error while a step is applied ends the job of all groups, in the middle of a run.
func TestExchangeEndsAfterAnError(t *testing.T) {
	broken := errors.New("broken")
	err := runRanks("data:3", 0, config.Exchange{System: config.EagerExchange, Initiator: "solo", Period: 50}, func(r rank, e *Exchange) error {
		if err := e.Start(50); err != nil {
			return err
		}
		for step := range 50 {
			if r.Index() == 2 && step == 7 {
				return broken
			}
			if err := r.step(e, 1, Share{Weight: 1}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
