//go:build long

package topk

import "testing"

// Over 1,000 steps in which gradients change slowly the mean error of counts is at most a tenth.
func TestLongCountsOfSlowGradients(t *testing.T) {
	for _, density := range []float64{0.01, 0.02, 0.05} {
		local, global := drift(t, 50000, 4, 1000, density)
		t.Logf("density %g: mean error of counts %.3f selected, %.3f kept", density, local, global)
		if local > 0.1 || global > 0.1 {
			t.Errorf("density %g: mean error of counts %.3f selected, %.3f kept, want at most 0.1", density, local, global)
		}
	}
}
