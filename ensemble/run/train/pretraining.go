package train

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// purposeVerifyingMember separates the random stream of verifying members from that of input members.
const purposeVerifyingMember = 0x766572696679

// isPretraining reports whether members verify the samples of the current network.
func (t *trainer) isPretraining() bool { return t.training().Phase == setup.Pretraining }

// drawVerified draws the member that takes the place of the analysis of a training sample in an epoch, and n input members from
// the others, as positions on the axis of members. The control is nearer to the ensemble mean than perturbed members are, so that
// it does not verify them; it is always an input member, and the first, as in random sampling.
func drawVerified(members []ensemble.Member, n int, seed, epoch, sample uint64) (verifying int, used []int) {
	var perturbed []int
	for i, m := range members {
		if m == ensemble.Control {
			used = append(used, i)
		} else {
			perturbed = append(perturbed, i)
		}
	}
	at := loader.DrawMembers(seed^purposeVerifyingMember, epoch, sample, len(perturbed), 1, false)[0]
	verifying = perturbed[at]
	others := slices.Delete(perturbed, at, at+1)
	for _, i := range loader.DrawMembers(seed, epoch, sample, len(others), n-len(used), false) {
		used = append(used, others[i])
	}
	return verifying, used
}

// verified returns the positions of the input members of a training sample in an epoch, and the analyses that verify it: in
// pre-training the fields of another member, else the given ones.
func (f *feeder) verified(fc *ensemble.Forecast, analyses []*ensemble.Analysis, count int, epoch, sample uint64) ([]int, []*ensemble.Analysis, error) {
	k := f.job.local
	if f.phase != setup.Pretraining {
		used, err := f.job.members(fc, count, f.seed, epoch, sample)
		return used, analyses, err
	}
	if _, err := task.MemberPositions(fc, k.UsedMembers); err != nil {
		return nil, nil, err
	}
	verifying, used := drawVerified(fc.Members, len(k.UsedMembers), f.seed, epoch, sample)
	return f.job.fewerMembers(used, count, f.seed, epoch, sample), k.AnalysesOfMember(fc, verifying), nil
}
