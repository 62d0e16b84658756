package train

import (
	"encoding/json"
	"fmt"
	"math"
	"path"

	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// channelRemoval is the removal of channels in the training of a network. What is left when is decided by
// the weights of the step at which it is decided; so a resumed training, which has them, and the
// list of what was left until then, removes the same.
type channelRemoval struct {
	goal        channels.Goal // in the end
	initial     float64       // share that is removed when it begins
	from, to    int           // steps
	every       int
	seed        uint64 // of random scores
	method      string
	description string // of the goal, in errors
}

// newChannelRemoval is that of a configuration for a training of so many steps; nil for none.
func newChannelRemoval(c *config.TrainConfig, steps int) *channelRemoval {
	p := c.Prune
	if p.Method == config.NoPruning || p.Structure != config.ChannelStructure {
		return nil
	}
	epochs := c.Train.Train.Epochs
	at := func(m config.TrainingTime) int { return int(math.Round(m.Fraction(epochs) * float64(steps))) }
	to := min(at(p.To), steps-1) // before the last step at the latest
	r := &channelRemoval{initial: p.Initial, from: min(at(p.From), to), to: to, every: p.Every, seed: uint64(c.Train.Train.Seed), method: p.Method,
		goal: channels.Goal{Scope: channels.Scope(p.EffectiveScope()), PerFLOP: p.TargetUnit == config.OperationsUnit, Multiple: p.ChannelMultiple, Exclude: layerMatcher(p.Keep)}, description: fmt.Sprintf("prune.target: %g of the %s", p.Target, p.TargetUnit)}
	if p.TargetUnit == config.OperationsUnit {
		r.goal.FLOPFraction = 1 - p.Target
	} else {
		r.goal.Fraction = 1 - p.Target
	}
	return r
}

// layerMatcher tells layers that prune.keep names.
func layerMatcher(patterns []string) func(layer string) bool {
	return func(layer string) bool {
		for _, p := range patterns {
			if ok, err := path.Match(p, layer); ok && err == nil {
				return true
			}
		}
		return false
	}
}

// goalAt is the goal at a step, and whether channels are removed there.
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

// check refuses a goal that cannot be reached, before the first step.
func (r *channelRemoval) check(s network.Spec, k *task.Task, g *ensemble.Grid) error {
	if r == nil {
		return nil
	}
	c, err := s.FullChannels(k, g)
	if err != nil {
		return err
	}
	goal := r.goal
	goal.Scope = channels.Uniform // whether it can be reached does not depend on scores
	if _, err := c.Choose(goal, c.EqualScores()); err != nil {
		return r.unreachable(err)
	}
	return nil
}

func (r *channelRemoval) unreachable(err error) error {
	return &exit.Error{Code: exit.Usage, What: "not so much of the network can be removed", At: r.description, Why: err.Error(),
		Fix: "give a smaller prune.target or prune.multiple, or let prune.keep name fewer layers", Err: err}
}

// isRemovingChannels tells whether channels may still go.
func (t *trainer) isRemovingChannels() bool {
	return t.removal != nil && t.networkSteps() < t.removal.to
}

// removeChannels removes what is to be removed before the present step: of the network, and of all that
// is kept of its parameters. All ranks do.
func (t *trainer) removeChannels() error {
	step := t.networkSteps()
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
	if err := t.ranks.CheckSame("which channels are left", string(text)); err != nil {
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

// shrink goes on with what a cut leaves of the network: its parameters, states, moments and average.
// The best weights so far are of a network that is no more.
func (t *trainer) shrink(kept []channels.Kept, cut channels.Selection) error {
	t.pos.Kept, t.current.pruning.importance = kept, importance{}
	err := t.recompile(func(w model.Weights) {
		for i, x := range w {
			w[i].Data, w[i].Shape = cut.Take(x.Name, x.Shape, x.Data.([]float32))
		}
	})
	t.current.best, t.pos.BestLoss, t.pos.BestEpoch = nil, noBest, t.pos.Epoch
	return err
}
