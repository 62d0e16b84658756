package train

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// channelRemoval describes the gradual removal of channels during a training. The choice at a step depends only on
// the weights and the channels removed so far, both of which a checkpoint contains. A resumed training
// therefore removes the same channels.
type channelRemoval struct {
	goal        channels.Goal // at the end
	initial     float64       // fraction removed at the first removal
	from, to    int           // first and last step of removal
	every       int           // steps between removals
	seed        uint64        // seed of random scores
	method      string
	description string // the goal in words, for errors
}

// newChannelRemoval returns the channel removal of a configuration for a training of this many steps; nil for none.
func newChannelRemoval(c *config.TrainConfig, steps int) *channelRemoval {
	p := c.Prune
	if p.Method == config.NoPruning || p.Structure != config.ChannelStructure {
		return nil
	}
	epochs := c.Train.Train.Epochs
	at := func(m config.TrainingTime) int { return int(math.Round(m.Fraction(epochs) * float64(steps))) }
	to := min(at(p.To), steps-1) // so that at least one step follows the last removal
	r := &channelRemoval{initial: p.Initial, from: min(at(p.From), to), to: to, every: p.Every, seed: uint64(c.Train.Train.Seed), method: p.Method,
		goal: channels.Goal{Scope: channels.Scope(p.EffectiveScope()), PerFLOP: p.TargetUnit == config.OperationsUnit, Multiple: p.ChannelMultiple, Exclude: p.Keeps}, description: fmt.Sprintf("prune.target: %g of the %s", p.Target, p.TargetUnit)}
	if p.TargetUnit == config.OperationsUnit {
		r.goal.FLOPFraction = 1 - p.Target
	} else {
		r.goal.Fraction = 1 - p.Target
	}
	return r
}

// goalAt returns the goal at a step, and whether channels are removed at it. Between the first and the last
// removal the removed fraction follows the cubic schedule of prune.Cubic.
func (r *channelRemoval) goalAt(step int) (channels.Goal, bool) {
	if r == nil || step < r.from || step > r.to || step != r.to && (step-r.from)%r.every != 0 {
		return channels.Goal{}, false
	}
	g := r.goal
	left := func(end float64) float64 {
		if step == r.to {
			return end
		}
		return 1 - prune.Cubic(step, r.from, r.to, r.initial, 1-end)
	}
	if g.FLOPFraction > 0 {
		g.FLOPFraction = left(g.FLOPFraction)
	} else {
		g.Fraction = left(g.Fraction)
	}
	return g, g.FLOPFraction+g.Fraction < 1
}

// check checks before the first step that the goal can be reached.
//
// Errors: exit 64.
func (r *channelRemoval) check(s network.Spec, k *task.Task, g *ensemble.Grid) error {
	if r == nil {
		return nil
	}
	c, err := s.FullChannels(k, g)
	if err != nil {
		return err
	}
	goal := r.goal
	goal.Scope = channels.Uniform // whether the goal can be reached does not depend on scores
	if _, err := c.Choose(goal, c.EqualScores()); err != nil {
		return r.unreachable(err)
	}
	return nil
}

// unreachable returns the error for a goal that cannot be reached.
func (r *channelRemoval) unreachable(err error) error {
	return &exit.Error{Code: exit.Usage, What: "the pruning target cannot be reached", At: r.description, Why: err.Error(),
		Fix: "set a smaller prune.target or prune.channel_multiple, or list fewer layers in prune.keep", Err: err}
}

// isRemovingChannels reports whether channels may still be removed from the current network.
func (t *trainer) isRemovingChannels() bool {
	return t.removal != nil && t.pos.Removed <= t.removal.to
}

// removeChannels removes the channels that are due before the current step, from the network and from all
// state of its parameters. All ranks call it, and must choose the same channels.
func (t *trainer) removeChannels() error {
	step := t.networkSteps()
	if t.isRemovingChannels() {
		step = min(step, t.removal.to) // it has passed if fewer epochs were requested on resuming
	}
	goal, due := t.removal.goalAt(step)
	if !due || t.pos.Removed > step {
		return nil
	}
	t.pos.Removed = step + 1
	spec := t.model.Spec
	whole, err := spec.FullChannels(&t.model.Task, t.model.Grid)
	if err != nil {
		return err
	}
	goal.Original = whole.OriginalSize()
	spec.Kept = t.pos.Kept
	now, err := spec.Channels(&t.model.Task, t.model.Grid)
	if err != nil {
		return err
	}
	scores, err := t.channelScores(now, step)
	if err != nil {
		return err
	}
	left, err := now.Choose(goal, scores)
	if err != nil {
		return t.removal.unreachable(err)
	}
	if len(left) == 0 {
		return nil
	}
	_, cut, err := now.Shrink(left)
	if err != nil {
		return err
	}
	kept := channels.Compose(t.pos.Kept, left)
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := t.ranks.CheckSame(team.Diverged("the remaining channels", string(text))); err != nil {
		return err
	}
	if err := t.shrink(kept, cut); err != nil {
		return err
	}
	share, err := whole.FLOPs(kept)
	if err != nil {
		return err
	}
	return t.dir.Events().Write("channels", t.pos.Step, t.pos.Epoch+1, rundir.Value{Name: "parameters", Value: t.current.store.ParamCount()},
		rundir.Value{Name: "operations", Value: float64(share) / float64(goal.Original.FLOPs)})
}

// shrink shrinks parameters, states, moments and average of the current network and recompiles it. The best
// weights so far belong to the larger network and are dropped.
func (t *trainer) shrink(kept []channels.Kept, cut channels.Selection) error {
	t.pos.Kept, t.current.pruning.importance = kept, importance{}
	t.pos.Plateau.Forget()
	t.startSchedule()
	err := t.recompile(func(w model.Weights) {
		for i, x := range w {
			w[i].Data, w[i].Shape = cut.Take(x.Name, x.Shape, x.Data.([]float32))
		}
	})
	t.current.best, t.pos.BestLoss, t.pos.BestEpoch = nil, noBest, t.pos.Epoch
	return err
}
