//go:build long

package grib

import "testing"

// TestLongMutatedFiles: a million damaged files.
func TestLongMutatedFiles(t *testing.T) { checkMutated(t, 1_000_000) }
