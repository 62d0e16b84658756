package groups

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// eager is eager-SGD among groups. A group contributes its gradient times its weight, and both the weight and the loss
// behind it. The gradient of a step is
//
//	Σ W g / Σ W · n/G
//
// over the n contributions to the sum, of G groups. If no group is late, n is G, and this is the gradient of the whole
// batch. If some are, the factor keeps the length of all steps together: what is late has its weight later.
type eager struct {
	groups *team.SampleGroups
	leader *partial.Eager // nil except on the first rank of a group
	group  *partial.EagerGroup
	own    []float32 // contribution of the leader
}

// contributionTail is the number of values after the gradient: weight, and weight times loss.
const contributionTail = 2

func newEager(g *team.SampleGroups, c config.Exchange, parameters int, at Begin) (*eager, error) {
	o := partial.EagerOptions{Period: c.Period, First: int(at.Step), Seed: at.Seed, Skip: c.Skip, Replay: at.Replay}
	if c.Initiator == config.MajorityInitiator {
		o.Initiator = partial.Majority
	}
	n := parameters + contributionTail
	leader, err := partial.NewEager(g.Across, n, o) // on all ranks: they create groups in step
	if err != nil {
		return nil, err
	}
	e := &eager{groups: g}
	if g.IsLeader() {
		e.leader, e.own = leader, make([]float32, n)
	}
	e.group = partial.NewEagerGroup(g.Group, n, e.leader)
	return e, nil
}

func (e *eager) start(steps int) error {
	if e.leader == nil {
		return nil
	}
	return e.leader.Start(steps)
}

func (e *eager) step(n Network, s Share, apply Apply, c *counts) error {
	if e.leader != nil {
		clear(e.own)
		gradient := e.own[:len(e.own)-contributionTail]
		n.Optimizer.AddScaledGradient(gradient, float32(s.Weight))
		e.own[len(gradient)], e.own[len(gradient)+1] = float32(s.Weight), float32(s.Weight*s.Loss)
	}
	updates, err := e.group.Step(e.own)
	if err != nil {
		return err
	}
	count := float64(e.groups.Count())
	for _, u := range updates {
		gradient, tail := u.Sum[:len(u.Sum)-contributionTail], u.Sum[len(u.Sum)-contributionTail:]
		factor, loss := 0.0, 0.0
		if w := float64(tail[0]); w != 0 { // the mean over no weight is 0
			factor, loss = float64(u.Gradients)/count/w, float64(tail[1])/w
		}
		for i := range gradient {
			gradient[i] *= float32(factor)
		}
		n.Optimizer.SetGradient(gradient)
		if err := apply(loss, 1); err != nil {
			return err
		}
		c.late += (count - float64(u.Fresh)) / count
	}
	return nil
}

func (e *eager) differs() bool { return false }

func (e *eager) cancel() {
	if e.leader != nil {
		e.leader.Cancel()
	}
}

func (e *eager) arrivals() partial.Arrivals { return e.leader.RunLog() }

func (e *eager) next() int { return e.group.Next() }

func (e *eager) velocity() []float32 { return nil }
