package train

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
)

// fewerNetworks compiles those of the present network that read fewer members. They share its
// parameters and gradients.
func (t *trainer) fewerNetworks(spec network.Spec, o engine.Options) error {
	t.now.ofFewer = map[int]*network.Network{}
	for n := t.plansOfMembers() - 1; n > 0; n-- {
		count := len(t.model.Task.Used) - n
		net, err := spec.Reading(count).Compile(&t.model.Task, t.model.Grid, t.now.cfg.BatchSize, t.seed(), true, o, t.ranks)
		if err != nil {
			return t.namedMemory(err)
		}
		t.now.ofFewer[count] = net
	}
	return nil
}

// plansOfMembers is the number of plans of a training step, one for each number of members.
func (j *job) plansOfMembers() int {
	k := &j.model.Task
	if !j.model.Spec.ReadsMembers() || k.Least == 0 {
		return 1
	}
	return len(k.Used) - k.Least + 1
}

// of is the network for a batch.
func (p *plans) of(b *task.Batch) *network.Network {
	if net := p.ofFewer[b.Count]; net != nil {
		return net
	}
	return p.train
}
