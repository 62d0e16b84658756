//go:build long

package main

import "testing"

// TestLongMigration follows the migration page to its end: the section that trains on invented weather in the layout of ENS-10.
func TestLongMigration(t *testing.T) {
	s := sections[len(sections)-1]
	t.Setenv("ENSEMBLE_DECODE", "")
	migrate(t, installed(t), s.data, blocksOf(t, s.heading))
}
