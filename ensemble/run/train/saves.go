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
	last  time.Duration // time of the last save of this process
	spent time.Duration // time of all saves of this process

	hasEpochEnded bool // since the last save
}

// begin starts the first interval at a number of steps.
func (s *saves) begin(step uint64) { s.at, s.step, s.hasEpochEnded = s.now(), step, false }

// isDue reports whether an interval of time or steps has ended after a number of steps, or an automatic one of an epoch.
func (s *saves) isDue(step uint64) bool {
	if step == s.step {
		return false
	}
	trained := s.now().Sub(s.at)
	return s.every.Steps > 0 && step-s.step >= uint64(s.every.Steps) || s.every.Time > 0 && trained >= s.every.Time ||
		s.every.IsAuto && s.hasEpochEnded && trained >= config.MinCheckpointRatio*s.last
}

// endEpoch ends an epoch of a network, maybe its last one, and reports whether a checkpoint is due: at the end of an interval of
// epochs and of the network. An automatic one is due before the next step, as only rank 0 knows the time.
func (s *saves) endEpoch(epoch int, isLast bool) (isDue bool) {
	s.hasEpochEnded = true
	return s.every.Epochs > 0 && !s.every.IsAuto && epoch%s.every.Epochs == 0 || isLast
}

// saveRegularly saves a checkpoint that is due and logs how long it took. All ranks call it.
func (t *trainer) saveRegularly() error {
	began := t.saves.now()
	if err := t.save(); err != nil {
		return err
	}
	t.saves.begin(t.pos.Step)
	took := t.saves.at.Sub(began)
	t.saves.last = took
	t.saves.spent += took
	return t.observers.dir.Events().Write("checkpoint", t.pos.Step, t.pos.Epoch, rundir.Value{Name: "checkpoint_s", Value: took.Seconds()})
}
