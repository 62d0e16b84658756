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
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Prune prunes the network of a finished training in rounds, with training between them, or at once, and writes a run
// directory. It compares the networks on the validation samples.
//
// Reads: the run directory to prune, and the data of its training.
// Writes: as train.Run, and efficiency.json.
// Errors: exit 64 for a run that is not a training of one network, and for a target that cannot be reached;
// those of train.Run.
func Prune(ctx context.Context, job *config.PruneConfig, o RetrainOptions) (*RetrainResult, error) {
	if job.AtOnce() {
		return pruneAtOnce(ctx, job, o)
	}
	from := string(job.RunDir)
	c, kept, err := prunedTraining(job, from)
	if err != nil {
		return nil, err
	}
	return retrain(ctx, c, kept, []string{from}, job.CompareWith, o)
}

// prunedTraining returns the configuration of the training that prunes a run, and the remaining channels of
// its network.
func prunedTraining(c *config.PruneConfig, from string) (*config.TrainConfig, []channels.Kept, error) {
	_, samples, err := trained.FinishedTraining(from)
	if err != nil {
		return nil, nil, err
	}
	m, f, err := model.LoadDescription(filepath.Join(from, "model"))
	if err != nil {
		return nil, nil, err
	}
	if err := checkPrunable(m, f.Networks, from); err != nil {
		return nil, nil, err
	}
	weights := filepath.Join(from, "model", fmt.Sprintf(model.WeightsFormat, 0))
	for path, name := range map[*string]string{&weights: weights, &from: from} { // the path of the configuration does not matter
		if *path, err = filesystem.Absolute("", name); err != nil {
			return nil, nil, exit.ReadError(name, err)
		}
	}
	t, err := c.Training(filepath.Join(from, "config.effective.yaml"), weights, samples)
	return t, m.Spec.Kept, err
}

// checkPrunable refuses models that cannot be pruned.
func checkPrunable(m *model.Model, networks int, from string) error {
	if m.Spec.SharesParameters() {
		return &exit.Error{Code: exit.Usage, What: "a network whose layers share parameters cannot be pruned", At: from,
			Why: "a shared weight that is set to 0 would be 0 in several layers", Fix: "prune a network trained without model.share"}
	}
	if networks != 1 || m.Spec.Staged() {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a run with %d networks, method %q, cannot be pruned", networks, cmp.Or(m.Spec.Method, config.JointMethod)), At: from,
			Why: "each network would lose different parts", Fix: "train one network (train.networks: 1, model.method: joint), and prune that"}
	}
	return nil
}
