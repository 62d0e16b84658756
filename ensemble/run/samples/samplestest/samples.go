package samplestest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	fio "github.com/ensemble-weather/ensemble/io"
)

// ReadInit reads an initialisation with all its members.
func ReadInit(t *testing.T, c *config.TrainConfig, file string) *ensemble.Forecast {
	t.Helper()
	in, err := fio.Open(context.Background(), []string{file}, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	selected, err := input.SelectForecasts(in, input.RequirementsOf(c, setup.AxesOf(c), in.Catalogue().Members()), input.Destination{}, input.StatisticRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := selected.Read(context.Background(), selected.Inits, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// PrepareStore prepares the store of a configuration and returns its folder.
func PrepareStore(t *testing.T, c *config.TrainConfig, storage string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := samples.Prepare(context.Background(), samples.PrepareOptions{Config: c, Out: dir, Storage: storage, ShardSize: 1 << 20, Memory: 16 << 20, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FirstValidationInit returns the first validation sample of a configuration.
func FirstValidationInit(t *testing.T, c *config.TrainConfig) *ensemble.Forecast {
	t.Helper()
	forecasts, analyses, err := samples.TrainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	next := d.Validation.Stream(context.Background(), nil)
	defer next.Close()
	fc, _, err := next.NextForecast()
	if err != nil {
		t.Fatal(err)
	}
	return fc
}
