//go:build long

package partial

import "testing"

// Ten thousand steps on 2 to 16 ranks.
func TestLongEager(t *testing.T) { eagerFuzz(t, 10_000, 100) }

// Ten thousand steps in all sizes of groups.
func TestLongWAGMA(t *testing.T) { wagmaFuzz(t, 10_000, 100) }
