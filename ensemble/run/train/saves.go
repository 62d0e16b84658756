package train

import (
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// saves determines when checkpoints are due. The clock and the count of steps are those of rank 0, with which all ranks
// agree before each step, so that all save the same step.
type saves struct {
	every config.CheckpointInterval
	now   func() time.Time
	at    time.Time     // end of the last save of this process, or the begin of its training
	step  uint64        // steps at that time
	spent time.Duration // time of all saves of this process
}

// begin starts the first interval at a number of steps.
func (s *saves) begin(step uint64) { s.at, s.step = s.now(), step }

// isDue reports whether an interval of time or steps has ended after a number of steps.
func (s *saves) isDue(step uint64) bool {
	if step == s.step {
		return false
	}
	return s.every.Steps > 0 && step-s.step >= uint64(s.every.Steps) || s.every.Time > 0 && s.now().Sub(s.at) >= s.every.Time
}

// isEpochDue reports whether an interval of epochs has ended after an epoch of a network, or its training.
func (s *saves) isEpochDue(epoch, last int) bool {
	return s.every.Epochs > 0 && epoch%s.every.Epochs == 0 || epoch == last
}

// saveRegularly saves a checkpoint that is due and logs how long it took. All ranks call it.
func (t *trainer) saveRegularly() error {
	began := t.saves.now()
	if err := t.save(); err != nil {
		return err
	}
	t.saves.begin(t.pos.Step)
	took := t.saves.at.Sub(began)
	t.saves.spent += took
	return t.observers.dir.Events().Write("checkpoint", t.pos.Step, t.pos.Epoch, rundir.Value{Name: "checkpoint_s", Value: took.Seconds()})
}
