//go:build long

package search

import "testing"

func TestLongSearchIsExhaustive(t *testing.T) { searchesExhaustively(t, 4, 6, 8) }
