//go:build long

package train_test

import (
	"fmt"
	"testing"
)

// TestLongStops runs TestStops for 200 random trainings.
func TestLongStops(t *testing.T) {
	for i := range 200 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { checkStops(t, i) })
	}
}
