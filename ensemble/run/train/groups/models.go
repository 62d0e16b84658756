package groups

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// takeOwnStep takes an optimiser step with the gradient of this group alone. A group with fewer samples than the mean has a
// smaller gradient, so that the mean of models is that of samples.
func takeOwnStep(n Network, s Share, apply Apply) error {
	if s.Samples != 1 {
		gradient := make([]float32, len(n.Store.Params()))
		n.Optimizer.AddScaledGradient(gradient, float32(s.Samples))
		n.Optimizer.SetGradient(gradient)
	}
	return apply(s.Loss, s.Samples)
}

// wagma is WAGMA-SGD among groups.
type wagma struct {
	leader *partial.WAGMA // nil except on the first rank of a group
	group  *partial.WAGMAGroup
}

func newWAGMA(g *team.SampleGroups, c config.Exchange, store *engine.Store, at Begin) (*wagma, error) {
	leader, err := partial.NewWAGMA(g.Across, store.Params(), partial.WAGMAOptions{GroupSize: c.Group, Period: c.Period, First: int(at.Step), Skip: c.Skip, Replay: at.Replay})
	if err != nil {
		return nil, err
	}
	w := &wagma{}
	if g.IsLeader() { // the others have created groups in step
		w.leader = leader
	}
	w.group = partial.NewWAGMAGroup(g.Group, w.leader)
	return w, nil
}

func (w *wagma) start(steps int) error {
	if w.leader == nil {
		return nil
	}
	return w.leader.Start(steps)
}

func (w *wagma) step(n Network, s Share, apply Apply, c *counts) error {
	if err := takeOwnStep(n, s, apply); err != nil {
		return err
	}
	before := w.group.Next()
	a, err := w.group.Step(n.Store.Params())
	if a.Late {
		c.late += float64(w.group.Next() - before)
	}
	return err
}

func (w *wagma) differs() bool { return true }

func (w *wagma) cancel() {
	if w.leader != nil {
		w.leader.Cancel()
	}
}

func (w *wagma) arrivals() partial.Arrivals { return w.leader.RunLog() }

func (w *wagma) next() int { return w.group.Next() }

func (w *wagma) velocity() []float32 { return nil }

// local is local SGD among groups. All ranks take the outer steps, as they have the same bits.
type local struct {
	outer *partial.Local
	left  int // steps to the next outer step
	steps int // taken
}

func newLocal(g *team.SampleGroups, c config.Exchange, store *engine.Store) (*local, error) {
	outer, err := partial.NewLocal(g.Across, store.Params(), partial.LocalOptions{Steps: 1, Rate: c.Rate, Momentum: c.Momentum})
	return &local{outer: outer}, err
}

func (l *local) start(steps int) error {
	l.left = steps
	return nil
}

func (l *local) step(n Network, s Share, apply Apply, _ *counts) error {
	if err := takeOwnStep(n, s, apply); err != nil {
		return err
	}
	l.steps++
	if l.left--; l.left > 0 {
		return nil
	}
	_, err := l.outer.Step(n.Store.Params())
	return err
}

func (l *local) differs() bool { return true }

func (l *local) cancel() {}

func (l *local) arrivals() (none partial.Arrivals) { return none }

func (l *local) next() int { return l.steps }

func (l *local) velocity() []float32 { return l.outer.Velocity() }
