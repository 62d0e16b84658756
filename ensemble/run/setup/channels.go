package setup

import (
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PretrainedChannels returns the channels of the pruned network that model.channels_from names; nil without it.
//
// Errors: exit 66 if that training is missing; 64 if it removed no channels or had another network.
func PretrainedChannels(c *config.TrainConfig, k *task.Task, g *ensemble.Grid) ([]channels.Kept, error) {
	dir := string(c.Model.ChannelsFrom)
	if dir == "" {
		return nil, nil
	}
	m, _, err := model.LoadDescription(filepath.Join(dir, "model"))
	if err != nil {
		return nil, err
	}
	no := func(why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: "the network does not match the pruned channels of " + dir, At: "model.channels_from", Why: why, Fix: fix}
	}
	if len(m.Spec.Kept) == 0 {
		return nil, no("that training removed no channels", "give a training with prune.structure: channel")
	}
	whole, err := SpecOf(c).Channels(k, g)
	if err != nil {
		return nil, err
	}
	if _, _, err := whole.Shrink(m.Spec.Kept); err != nil {
		return nil, no(err.Error(), "set model.kind, model.base, model.stages and the inputs as in that training")
	}
	return m.Spec.Kept, nil
}
