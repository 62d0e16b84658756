//go:build long

package main

import "testing"

// TestLongMigration runs the last section of the migration page, which trains on synthetic data in the layout of
// ENS-10.
func TestLongMigration(t *testing.T) {
	s := sections[len(sections)-1]
	t.Setenv("ENSEMBLE_DECODE", "")
	migrate(t, installed(t), s.data, blocksOf(t, s.heading))
}
