package jobs

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/io/product"
)

// A training in stages, on two shards of the fields, ends with the same bits after it was stopped within the
// last stage. Its products have the scores of the training, and its report shows each stage.
func TestStagesWholeJob(t *testing.T) {
	f := demotest.Files(t)
	// Steps of an epoch: 1, 4, 4, 4 and 4, of the last network after 16 corrections.
	runDir := traintest.CheckResume(t, runtest.StagedTraining(t, f, "data.members.minimum=2", "train.mesh=lat:2"), 35)
	out := t.TempDir()
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	trained, err := trained.ReadScores(runDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crps_gauss", "spread_rmse"} {
		a, b := trained.Find(name, "network", "t", "850hPa", "48h"), verified.Scores.Find(name, "network", "t", "850hPa", "48h")
		if a == nil || b == nil || math.Abs(float64(a.Value-b.Value)) > 1e-5*float64(a.Value) {
			t.Errorf("%s: %+v from training, %+v from the products", name, a, b)
		}
	}
	exported, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: t.TempDir(), Threads: 1, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range exported.Outputs {
		files = append(files, filepath.Base(path))
	}
	if want := []string{"network-00.safetensors", "maps-00.safetensors", "spread-network-00.safetensors", "spread-maps-00.safetensors", model.BiasFile, model.ArraysFile, exchange.ExportFile}; !slices.Equal(files, want) {
		t.Errorf("exported %q, want %q", files, want)
	}
	drawn, err := reports.LossCharts(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, c := range drawn {
		titles = append(titles, c.Title)
	}
	if want := []string{"Loss: bias without 2001", "Loss: bias without 2002", "Loss: bias", "Loss: spread", "Loss: sigma"}; !slices.Equal(titles, want) {
		t.Errorf("charts %q, want %q", titles, want)
	}
}
