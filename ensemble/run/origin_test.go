package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A model knows whose forecasts it learned from, and what is of another model is told or
// refused.
func TestOtherForecastModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(trainedRun(t))); err != nil {
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
	predict := func(origins []ensemble.Origin, policy string) (*PredictResult, error) {
		m.Origins = origins
		if err := m.Save(filepath.Join(dir, "model")); err != nil {
			t.Fatal(err)
		}
		sign(t, dir)
		o := predictOptions(t, t.TempDir())
		o.RunDir, o.Input, o.Policy.OtherModel = dir, o.Input[:1], policy
		return Predict(context.Background(), o)
	}
	const want = "another forecast model"
	warned := func(r *PredictResult) bool { return strings.Contains(strings.Join(r.Warnings, "\n"), want) }
	known := m.Origins
	if r, err := predict(known, "refuse"); err != nil || warned(r) {
		t.Errorf("its own: %v", err)
	}
	if r, err := predict(nil, "refuse"); err != nil || warned(r) {
		t.Errorf("a model of an older program: %v", err)
	}
	other := []ensemble.Origin{{Centre: "another", Points: known[0].Points}}
	if r, err := predict(other, ""); err != nil || !warned(r) {
		t.Errorf("another centre: %v", err)
	}
	if _, err := predict(other, "refuse"); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
		t.Errorf("another centre is refused: %v", err)
	}
}
