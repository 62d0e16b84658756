//go:build long

package fio

import "testing"

// TestLongMutatedFiles: a hundred thousand damaged files through the children.
func TestLongMutatedFiles(t *testing.T) { checkMutated(t, 100_000) }
