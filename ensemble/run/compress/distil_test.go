package compress

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func distilJob(t *testing.T, text string, args ...any) *config.DistilConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "distil.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, text, args...), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadDistil(config.Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// distance is the mean distance of two runs' predictions for an initialisation.
func distance(t *testing.T, a, b string, fc *ensemble.Forecast) (sum float64) {
	t.Helper()
	var out []*model.Forecast
	for _, dir := range []string{a, b} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		o, err := m.Predict(context.Background(), network.Options(1, ""), fc, m.Task.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	for i := range out[0].Mean {
		d, _, _ := dist.NormalCramer(float64(out[0].Mean[i]), float64(out[0].Sigma[i]), float64(out[1].Mean[i]), float64(out[1].Sigma[i]))
		sum += d / float64(len(out[0].Mean))
	}
	return sum
}

// A student learns from a teacher of two networks: trained on its predictions alone, it comes closer to it
// than a network of the same seed without teacher. The table has all three. Each file is published while no other process can take the run over.
func TestDistil(t *testing.T) {
	teacher := traintest.Train(t, demotest.Config(t, demotest.Files(t), "baselines=[climatology]", "train.epochs=2"))
	dirs := t.TempDir()
	student, alone := filepath.Join(dirs, "student"), filepath.Join(dirs, "alone")
	set := []string{"train.networks=1", "train.epochs=4", "train.seed=3", "model.base=1", "baselines=[climatology]"}
	if _, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, demotest.Files(t), set...), RunDir: alone, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	c := distilJob(t, "version: 1\nteachers: [%s]\nweight: 1\nepochs: 4\nnetworks: 1\nseed: 3\nmodel: {base: 1}\ncompare_with: [%s]\n", teacher, alone)
	var r *RetrainResult
	var err error
	rundirtest.CheckPublished(t, student, func() { r, err = Distil(context.Background(), c, RetrainOptions{RunDir: student, Version: "test"}) })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Table.Rows) != 3 || r.Table.Rows[1].Parameters != r.Table.Rows[2].Parameters || r.Table.Rows[1].Operations >= r.Table.Rows[0].Operations || len(r.Table.Rows[1].CRPS) != 1 {
		t.Errorf("table %+v", r.Table)
	}
	fc := samplestest.FirstValidationInit(t, demotest.Config(t, demotest.Files(t)))
	if with, without := distance(t, teacher, student, fc), distance(t, teacher, alone, fc); with > 0.7*without {
		t.Errorf("the student is %v from its teacher, without it %v", with, without)
	}
	if _, _, err := trained.FinishedTraining(student); err != nil {
		t.Error(err)
	}
}
