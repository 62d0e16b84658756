//go:build long

package netcdf

import "testing"

// TestLongMutatedFiles: a million damaged files.
func TestLongMutatedFiles(t *testing.T) { checkMutated(t, 1_000_000) }
