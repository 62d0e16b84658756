package config

import "github.com/ensemble-weather/ensemble/internal/exit"

// checkOffloadFolder checks that train.offload_folder has a use.
func (c *TrainConfig) checkOffloadFolder() (faults []*exit.Error) {
	const path = "train.offload_folder"
	t := c.Train.Train
	if t.OffloadFolder == "" {
		return nil
	}
	for _, x := range []struct {
		refused        bool
		what, why, fix string
	}{
		{t.Memory == 0 && t.Device == "cpu", path + " without train.memory", "without a limit all activations stay in memory", "set train.memory, for example to 4GiB"},
		{t.Device == "cuda", path + " with train.device: cuda", "a GPU copies activations to the memory of the host", "set train.device: cpu"},
		{t.Pipeline.IsEnabled(), path + " with train.pipeline", "activations of a stage are kept by micro-batch, in memory", "remove train.pipeline"},
	} {
		if x.refused {
			faults = append(faults, c.Fault(path, x.what, x.why, x.fix+", or remove "+path))
		}
	}
	return faults
}
