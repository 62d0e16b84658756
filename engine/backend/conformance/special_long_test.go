//go:build long

package conformance

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
)

func TestLongValues(t *testing.T) { allValues(t, 1) }

func TestLongSpecialValues(t *testing.T) {
	for _, winograd := range []bool{true, false} {
		t.Run(fmt.Sprintf("winograd %v", winograd), func(t *testing.T) {
			dev, err := engine.Backends[0].Open(engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: winograd}})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			specialValues(t, dev, 1)
		})
	}
	t.Run("cuda", func(t *testing.T) { specialValuesOfCUDA(t, 7) })
}
