package jobs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A model records the forecast model of its training data; input of another one is reported or refused.
func TestOtherForecastModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(traintest.TrainedRun(t))); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(dir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Origins) != 1 || m.Origins[0].Centre == "" || m.Origins[0].Points == "" {
		t.Fatalf("origins %+v", m.Origins)
	}
	issued := func(origins []ensemble.Origin, policy string) (*predict.Result, error) {
		m.Origins = origins
		if err := m.Save(filepath.Join(dir, "model")); err != nil {
			t.Fatal(err)
		}
		traintest.UpdateModelChecksum(t, dir)
		o := predictOptions(t, t.TempDir())
		o.RunDir, o.Input, o.Policy.OnModelMismatch = dir, o.Input[:1], policy
		return predict.Run(context.Background(), o)
	}
	const want = "another forecast model"
	warned := func(r *predict.Result) bool { return strings.Contains(strings.Join(r.Warnings, "\n"), want) }
	known := m.Origins
	if r, err := issued(known, "refuse"); err != nil || warned(r) {
		t.Errorf("its own: %v", err)
	}
	if r, err := issued(nil, "refuse"); err != nil || warned(r) {
		t.Errorf("a model whose files said no origin: %v", err)
	}
	other := []ensemble.Origin{{Centre: "another", Points: known[0].Points}}
	if r, err := issued(other, ""); err != nil || !warned(r) {
		t.Errorf("another centre: %v", err)
	}
	if _, err := issued(other, "refuse"); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
		t.Errorf("another centre is refused: %v", err)
	}
}
