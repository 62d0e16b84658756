package compress

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Prune removes parts of the network of a finished training in rounds, with training between them, and
// leaves a run directory like that of a training. It compares the networks on the validation starts.
//
// Errors: 64 for a run that is no training of one network, and for a goal that cannot be reached; those
// of Train.
func Prune(ctx context.Context, job *config.PruneConfig, o RetrainOptions) (*RetrainResult, error) {
	from := string(job.RunDir)
	c, kept, err := prunedTraining(job, from)
	if err != nil {
		return nil, err
	}
	return retrain(ctx, c, kept, []string{from}, job.CompareWith, o)
}

// prunedTraining is the configuration of the training that prunes a run, and what is left of its network's
// channels.
func prunedTraining(c *config.PruneConfig, from string) (*config.TrainConfig, []channels.Kept, error) {
	_, starts, err := trained.FinishedTraining(from)
	if err != nil {
		return nil, nil, err
	}
	m, f, err := model.LoadDescription(filepath.Join(from, "model"))
	if err != nil {
		return nil, nil, err
	}
	if m.Spec.SharesParameters() {
		return nil, nil, &exit.Error{Code: exit.Usage, What: "a network whose layers share parameters cannot be pruned", At: from,
			Why: "a weight of a store that becomes 0 would be so in many places of many layers", Fix: "prune a network that was trained without model.share"}
	}
	weights := filepath.Join(from, "model", fmt.Sprintf(model.WeightsFormat, 0))
	if f.Networks != 1 || m.Spec.Staged() {
		return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a run of %d networks, method %q, cannot be pruned", f.Networks, cmp.Or(m.Spec.Method, config.JointMethod)), At: from,
			Why: "each network would lose other parts", Fix: "train one network (train.networks: 1, model.method: joint), and prune that"}
	}
	for path, name := range map[*string]string{&weights: weights, &from: from} { // from where the configuration is read does not matter
		if *path, err = filepath.Abs(name); err != nil {
			return nil, nil, exit.ReadError(name, err)
		}
	}
	t, err := c.Training(filepath.Join(from, "config.effective.yaml"), weights, starts)
	return t, m.Spec.Kept, err
}
