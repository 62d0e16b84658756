//go:build long && cgo && linux

package unet3d

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
)

func TestLongOptionalPassesOnKinds(t *testing.T) {
	changed := leaveOutPasses(t, 1)
	changed["fold-constants"] = true // rounds transcendental functions of constants once, which no kind has
	for _, p := range pass.List {
		if p.Absence == pass.Rounding && !changed[p.Name] {
			t.Errorf("without %s no bit changes on any kind, but the list claims rounding", p.Name)
		}
	}
}
