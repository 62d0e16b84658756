package compress

import (
	"context"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Distil trains a student network on the data of finished trainings and on the distributions that these
// teachers predict. It writes a run directory and compares the networks on the validation samples.
//
// Reads: the teachers' run directories and the data of the training.
// Writes: as train.Run, and efficiency.json.
// Errors: exit 66 for a teacher that is not finished; 64 for a teacher that does not match; those of
// train.Run.
func Distil(ctx context.Context, job *config.DistilConfig, o RetrainOptions) (*RetrainResult, error) {
	var teachers []string
	for _, dir := range job.Teachers {
		if _, _, err := trained.FinishedTraining(string(dir)); err != nil {
			return nil, err
		}
		path, err := filesystem.Absolute("", string(dir)) // the path of the configuration does not matter
		if err != nil {
			return nil, exit.ReadError(string(dir), err)
		}
		teachers = append(teachers, path)
	}
	c, err := job.Training(filepath.Join(teachers[0], "config.effective.yaml"), teachers)
	if err != nil {
		return nil, err
	}
	return retrain(ctx, c, nil, teachers, job.CompareWith, o)
}
