//go:build long

package cuda_test

import "testing"

// TestLongEveryTile computes in every size of tiles that devices choose from.
func TestLongEveryTile(t *testing.T) { everyTile(t, emulatedGPU(t), largerCases()) }
