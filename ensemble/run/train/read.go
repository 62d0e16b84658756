package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// readData reads the samples of a run. That they suffice for the configuration is checked before, from the indexes of the files.
//
// Errors: exit 64, 65 and 66; all ranks return the same error.
func readData(ctx context.Context, c *config.TrainConfig, run *trainingRun) (*samples.Data, error) {
	task := progress.Start(ctx, "read samples", 0)
	defer task.Done()
	d, err := samples.ReadCheckedData(ctx, c, run.files.forecasts, run.files.analyses, run.ranks, func(d *samples.Data) error {
		if _, _, err := scheduled(c, d.Split); err != nil {
			return err
		}
		if c.Train.Train.Pretrain.IsEnabled() {
			if err := config.CheckPretrainMembers(len(d.Used), len(d.All)); err != nil {
				return err
			}
		}
		return checkCalibration(d.Split, c)
	})
	if err = run.ranks.AgreeOnError(err); err == nil {
		err = d.ConnectPeers(c)
	}
	if err != nil {
		if d != nil { // this rank could read, another could not
			_ = d.Close() // the read error is reported
		}
		return nil, err
	}
	d.Inputs = run.inputs
	d.Warnings = append(c.Warnings(), d.Warnings...)
	if run.compared != nil {
		d.Warnings = append(d.Warnings, run.compared.Warnings...)
	}
	return d, nil
}
