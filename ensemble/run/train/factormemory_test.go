package train

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Factors beyond train.memory are refused with a side that leaves out the largest one.
func TestFactorMemory(t *testing.T) {
	layers := []pass.LayerFactors{{Form: pass.ExactFactors, Rows: 16, Cols: 433, Taps: 27}, {Form: pass.ExactFactors, Rows: 32, Cols: 865, Taps: 27}, {Form: pass.NoFactors, Rows: 5000}}
	var c config.Training
	if err := checkFactorMemory(layers, c); err != nil {
		t.Error("without a limit:", err)
	}
	c.Memory = 8 << 20
	if err := checkFactorMemory(layers, c); err != nil {
		t.Error("8 MiB:", err)
	}
	c.KFAC.Adaptive = true
	if err := checkFactorMemory(layers, c); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "train.kfac.max_side to 864") {
		t.Errorf("8 MiB with the factors of two updates: %v", err)
	}
}
