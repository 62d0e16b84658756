package groups

import (
	"crypto/sha256"
	"encoding/hex"
	"math"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// Network is a network in training on this rank.
type Network struct {
	Store     *engine.Store
	Optimizer *optim.Optimizer
	Average   []float32 // moving average of the parameters; nil without one
}

// Share is what a group has computed in a step: the mean loss of its samples, whose gradient the optimiser has.
type Share struct {
	Loss    float64
	Weight  float64 // sum of the point weights of its samples
	Samples float64 // number of its samples, relative to the mean of all groups; those that fill a batch up do not count
}

// Exchange takes the optimiser steps of one network. All ranks of a job create and use it in step, except that between
// Start and the last Step each group proceeds by itself.
type Exchange struct {
	groups *team.SampleGroups
	system system
	counts counts
}

// system is one way to take a step.
type system interface {
	// start begins a run of steps, of which the last one waits for all groups.
	start(steps int) error
	// step takes the optimiser steps that follow from a share and counts late contributions.
	step(n Network, s Share, apply Apply, c *counts) error
	// differs reports whether groups have optimisers of their own.
	differs() bool
	// cancel ends a run early.
	cancel()
	// next returns the step that this group computes next, counted from the first step of the exchange.
	next() int
	// arrivals returns what depended on time in the last run, as partial.Eager.RunLog.
	arrivals() partial.Arrivals
	// velocity is the state of an outer optimiser, which the caller may change; nil without one.
	velocity() []float32
}

// counts are the contributions of this rank's group since the last report.
type counts struct {
	steps   int
	late    float64 // for eager, the mean of all groups
	skipped int     // steps that this group left out
}

// Begin is where the steps of an exchange begin.
type Begin struct {
	Step   uint64       // number of steps taken before
	Seed   uint64       // of the ranks that start sums
	Replay *partial.Log // of this rank's group in another training, whose bits are repeated; nil without
}

// New returns the exchange of a network whose parameters are equal on all ranks. All ranks of the job call it together, and
// it sends no messages.
//
// Errors: exit 64 for invalid options; too many groups in a job.
func New(g *team.SampleGroups, c config.Exchange, n Network, at Begin) (*Exchange, error) {
	s, err := newSystem(g, c, n.Store, at)
	return &Exchange{groups: g, system: s}, err
}

func newSystem(g *team.SampleGroups, c config.Exchange, store *engine.Store, at Begin) (system, error) {
	switch c.System {
	case config.WAGMAExchange:
		return newWAGMA(g, c, store, at)
	case config.LocalExchange:
		return newLocal(g, c, store)
	}
	return newEager(g, c, len(store.Params()), at)
}

// Start begins a run of steps. All ranks call it with the same number, and then Step as often.
func (e *Exchange) Start(steps int) error { return e.system.start(steps) }

// Apply takes a step with the gradient that the optimiser has. loss is the mean of the samples behind it, and samples their
// number relative to the mean of all groups; 1 if they are those of all groups.
type Apply func(loss, samples float64) error

// Step contributes the share of this rank's group, whose gradient is that of the next step of the optimiser. It calls apply
// once for each optimiser step to take; on a late rank of eager not at all, or several times. After the last Step of a run all ranks have taken all steps.
//
// skipped is the number of steps that the group leaves out before its next one. With eager it has taken them, with wagma their
// averages.
//
// Errors: those of apply; failures of other ranks.
func (e *Exchange) Step(n Network, s Share, apply Apply) (skipped int, err error) {
	before := e.system.next()
	if err := e.system.step(n, s, apply, &e.counts); err != nil {
		return 0, err
	}
	steps := e.system.next() - before
	e.counts.steps += steps
	e.counts.skipped += steps - 1
	return steps - 1, nil
}

// Align gives all ranks one network after a run, which ends after a number of steps of the optimiser. Running statistics, which come
// from the samples of a group, become the mean of all groups. So do the moments of optimisers and the average of weights, if groups
// have their own.
//
// Errors: lost ranks.
func (e *Exchange) Align(n Network, steps uint64) error {
	if err := Mean(e.groups, n.Store.States()); err != nil || !e.system.differs() {
		return err
	}
	if err := Mean(e.groups, n.Average); err != nil {
		return err
	}
	return meanMoments(e.groups, n.Optimizer, steps)
}

// CheckSame returns an error unless all ranks have the same parameters, their average, and running statistics. They do after
// Align; other bits are an error of a machine.
//
// Errors: exit 71 on all ranks.
func (n Network) CheckSame(ranks *team.Team) error {
	h := sha256.New()
	for _, x := range [][]float32{n.Store.Params(), n.Store.States(), n.Average} {
		h.Write(bigmem.Bytes(x))
	}
	return ranks.CheckSame(team.Diverged("the weights", hex.EncodeToString(h.Sum(nil))))
}

// Late is what was late since the last call of Exchange.Late.
type Late struct {
	Steps   int     // of all groups
	Late    float64 // number of contributions of all groups that were late or left out
	Share   float64 // of all contributions
	Skipped []int   // number of steps that each group left out
}

// Late returns what was late since the last call. All ranks call it after a run.
//
// Errors: lost ranks.
func (e *Exchange) Late() (l Late, err error) {
	x := []float64{e.counts.late}
	if err := Mean(e.groups, x); err != nil {
		return l, err
	}
	n := float64(e.groups.Count())
	l.Steps, l.Late = e.counts.steps, math.Round(x[0]*n) // a whole number, but for rounding of means
	l.Share = l.Late / (float64(l.Steps) * n)
	l.Skipped, err = team.AllGather(e.groups.Across, e.counts.skipped)
	e.counts = counts{}
	return l, err
}

// Velocity returns the momentum of the outer optimiser of local, equal on all ranks; nil for other systems. A checkpoint
// contains it. The caller sets it to continue a training.
func (e *Exchange) Velocity() []float32 { return e.system.velocity() }

// Cancel ends a run early, after an error; nil does nothing.
func (e *Exchange) Cancel() {
	if e != nil {
		e.system.cancel()
	}
}
