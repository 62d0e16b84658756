package serve

import (
	"context"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run"
)

// Maps that cannot be drawn, of whatever was kept, are no end of the service.
func TestMapsOfDamaged(t *testing.T) {
	values := make([]float32, 6)
	e := &run.Example{Init: ensemble.InitAt(startOf("2026010100")), Grid: &ensemble.Grid{NX: 3, NY: 2}, // without latitudes
		Fields: []run.ExampleField{{Variable: "t", Kind: run.ShowMean, Values: values}, {Variable: "t", Kind: run.ShowSpread, Values: values}}}
	if m, err := drawMaps(context.Background(), e); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("%+v, %v", m, err)
	}
}

// A page whose drawing is ended by a bug is drawn anew by the next request, which does not wait without end.
func TestPageAfterABug(t *testing.T) {
	s := newState(Options{})
	tree := s.tree
	s.tree = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing was injected")
			}
		}()
		_, _ = s.drawn()
	}()
	s.tree = tree
	if text, err := s.drawn(); err != nil || !strings.Contains(string(text), "Ensemble forecasts") {
		t.Errorf("%.100q, %v", text, err)
	}
}
