package train

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// isPretraining reports whether members verify the samples of the current network.
func (t *trainer) isPretraining() bool { return t.training().Phase == setup.Pretraining }

// verified returns the positions of the input members of a training sample in an epoch, and the analyses that verify it: in
// pre-training the fields of another member, else the given ones. A control is nearer to the ensemble mean than perturbed members
// are, so that it does not verify them.
func (f *feeder) verified(fc *ensemble.Forecast, analyses []*ensemble.Analysis, count int, epoch, sample uint64) ([]int, []*ensemble.Analysis, error) {
	k := f.job.local
	if f.phase != setup.Pretraining {
		used, err := f.job.members(fc, count, f.seed, epoch, sample)
		return used, analyses, err
	}
	if _, err := task.MemberPositions(fc, k.UsedMembers); err != nil {
		return nil, nil, err
	}
	verifying, used := loader.DrawVerifying(f.seed, epoch, sample, len(fc.Members), len(k.UsedMembers), fc.Members[0] == ensemble.Control && f.job.hasControl())
	return f.job.fewerMembers(used, count, f.seed, epoch, sample), k.AnalysesOfMember(fc, verifying), nil
}
