package demo

import (
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
)

// TestExperimentIsTheDemo: the experiment trains the network of `ensemble demo` on its synthetic data, with enough
// seeds for a time to quality. train.yaml is a link here; in a checkout without links it may be a copy, but not
// another file.
func TestExperimentIsTheDemo(t *testing.T) {
	e, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if e.Data.Source != experimentfile.DemoSource || e.Data.Demo != (experimentfile.DemoData{}) || e.Set != nil || len(e.Variants) != 1 || e.Variants[0].Set != nil {
		t.Errorf("data %+v, settings %q and variants %+v: want those of the demo", e.Data, e.Set, e.Variants)
	}
	own, err := os.ReadFile(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile("../../ensemble/run/demo/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(own) != string(built) {
		t.Error("train.yaml differs from the configuration in the program")
	}
	if len(e.Seeds) < experimentfile.MinTimedRuns || e.Quality.Target == 0 || e.Quality.Epochs == 0 {
		t.Errorf("seeds %v, quality %+v", e.Seeds, e.Quality)
	}
}
