//go:build long

package store

import "testing"

// TestLongFault23Replaced is TestFault23Replaced with a kill at each operation.
func TestLongFault23Replaced(t *testing.T) { killReplacing(t, 1, 1) }
