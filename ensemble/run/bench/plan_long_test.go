//go:build long

package bench

import "testing"

func TestLongStrongScaling(t *testing.T) { strongScaling(t, 16, 64) }
