package train

import (
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// unscale tells the optimiser of what the gradient of a step is, and whether that can be pruned
// along: all is finite. Where nothing is pruned the step itself finds out.
func (t *trainer) unscale() (finite bool, err error) {
	s := t.at.LossScale.Scale
	if s == 0 {
		return true, nil
	}
	t.opt.Scaled(s)
	if t.prune.mask == nil && t.removal == nil {
		return true, nil
	}
	return t.opt.Finite()
}

// stepped is what comes behind a step that was taken, or skipped as its gradient was not finite.
func (t *trainer) stepped(taken bool, values ...rundir.Value) error {
	changed := !taken
	if taken {
		if err := t.pruneAfter(); err != nil {
			return err
		}
		if err := t.dir.Events().Write("step", t.at.Step, t.at.Epoch+1, values...); err != nil {
			return err
		}
		changed = t.at.LossScale.Scale > 0 && t.at.LossScale.Took()
	}
	if !changed {
		return nil
	}
	return t.dir.Events().Write("loss_scale", t.at.Step, t.at.Epoch+1, rundir.Value{Name: "scale", Value: t.at.LossScale.Scale},
		rundir.Value{Name: "skipped", Value: t.at.LossScale.Skipped})
}
