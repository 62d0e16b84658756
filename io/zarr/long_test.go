//go:build long

package zarr

import "testing"

// TestLongMutatedFiles: a hundred thousand damaged stores.
func TestLongMutatedFiles(t *testing.T) { checkMutated(t, 100_000) }
