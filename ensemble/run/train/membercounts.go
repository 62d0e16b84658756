package train

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
)

// compileMemberCounts compiles variants of the current network that read fewer members. They share its parameters
// and gradients.
func (t *trainer) compileMemberCounts(spec network.Spec, o engine.Options) error {
	t.current.byMemberCount = map[int]*network.Network{}
	for n := t.planCount() - 1; n > 0; n-- {
		count := len(t.model.Task.UsedMembers) - n
		net, err := t.compileShare(spec.WithMemberCount(count), o)
		if err != nil {
			return err
		}
		t.current.byMemberCount[count] = net
	}
	return nil
}

// planCount is the number of compiled plans of a training step, one for each number of input members.
func (j *job) planCount() int {
	k := &j.model.Task
	if !j.model.Spec.ReadsMembers() || k.MinMembers == 0 {
		return 1
	}
	return len(k.UsedMembers) - k.MinMembers + 1
}

// memoryShares is the number of plans of a training step that share the memory limit: those of planCount, of windows, and that
// with Kronecker factors; or those of the stages of a pipeline that a rank holds, without and with factors.
func (j *job) memoryShares() int {
	usesFactors := j.base.Optimizer == config.KFACOptimizer
	switch p := j.base.Pipeline; {
	case p.IsEnabled() && usesFactors:
		return 2 * p.Pipes()
	case p.IsEnabled():
		return p.Pipes()
	case usesFactors:
		return j.planCount() + j.windowCount() + 1
	}
	return j.planCount() + j.windowCount()
}

// forBatch returns the variant for a batch's number of members.
func (p *compiledNetwork) forBatch(b *task.Batch) *network.Network {
	if net := p.byMemberCount[b.MemberCount]; net != nil {
		return net
	}
	return p.train
}
