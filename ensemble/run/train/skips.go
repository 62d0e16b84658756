package train

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/run/train/groups"
)

// leaveOut passes over the samples of computing in batches from one on, of a step that this group does not compute. With eager
// it has taken the optimiser step of the others; with wagma it takes none.
func (t *trainer) leaveOut(from, batches int) error {
	for range batches {
		if b := t.nextBatch(); b.err != nil {
			return b.err
		}
	}
	end := from + batches
	samples := t.ownSamples(from, batches) * float64(t.samplesIn(end)-t.samplesIn(from)) / float64(t.groups.Count())
	t.current.leftOut.samples += samples
	if t.pos.Batch < end {
		t.pos.Batch, t.pos.Step = end, t.pos.Step+1
		t.current.leftOut.ofRun += samples
	}
	return nil
}

// leftOut counts samples that this rank's group has left out.
type leftOut struct {
	samples float64 // since the last report
	ofRun   float64 // in this run, of which there are no losses
	passed  int     // samples of all groups since the last report
}

// endRun replaces the sum of losses of a run of steps, which this group has added to one before, by that of all groups. Samples that
// were left out have the mean loss of the others. samples is the number of samples of the run.
func (t *trainer) endRun(before float64, samples int) error {
	left := &t.current.leftOut
	left.passed += samples
	sums := []float64{t.pos.LossSum - before, left.ofRun * float64(t.groups.Count())}
	left.ofRun = 0
	if err := groups.Mean(t.groups, sums); err != nil {
		return err
	}
	t.pos.LossSum = before + sums[0]*(float64(samples)/(float64(samples)-sums[1]))
	return nil
}

// warnOfSlowGroups warns once of each group that has left out more than half of the steps.
func (t *trainer) warnOfSlowGroups(l groups.Late) {
	for group, skipped := range l.Skipped {
		if 2*skipped <= l.Steps || slices.Contains(t.warnedOfGroups, group) {
			continue
		}
		t.warnedOfGroups = append(t.warnedOfGroups, group)
		t.data.Warnings = append(t.data.Warnings, fmt.Sprintf("group %d of the axis data, counted from 0, left out %d of %d steps of epoch %d: it is slower than the others in most steps, so its samples hardly count; find what slows its ranks, or set train.exchange.skip: false",
			group, skipped, l.Steps, t.pos.Epoch))
	}
}
