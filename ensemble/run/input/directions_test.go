package input_test

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// All selections of forecasts and analyses refuse directions by name, once for each variable.
func TestUnitFaultsRefuseDirections(t *testing.T) {
	entry := func(name, unit string) ensemble.Entry {
		return ensemble.Entry{Key: ensemble.Key{Variable: name}, Kind: &ensemble.Kind{Unit: unit, NativeUnit: unit}, File: "fc.nc"}
	}
	faults := input.UnitFaults([]ensemble.Entry{entry("2t", "K"), entry("wdir", "degree"), entry("wdir", "degree"), entry("mwd", "degrees")})
	if len(faults) != 2 || faults[0].Code != exit.BadData || !strings.HasPrefix(faults[0].What, "wdir is a direction") || !strings.HasPrefix(faults[1].What, "mwd is a direction") || !strings.Contains(faults[0].At, "fc.nc") {
		t.Errorf("%+v", faults)
	}
	if faults := input.UnitFaults([]ensemble.Entry{entry("2t", "K"), entry("sza", "degree")}); len(faults) != 0 {
		t.Errorf("%+v", faults)
	}
}
