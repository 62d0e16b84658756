//go:build long

package jobs

import (
	"maps"
	"slices"
	"testing"
)

// TestLongLaunchers runs under every launcher what make test runs under one that a seed selects.
func TestLongLaunchers(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(t *testing.T, on launchers)
	}{
		{"failures of late steps", checkExchangeFailures},
		{"unlike ranks", checkUnlikeRanks},
		{"mesh", checkLaunchedMesh},
		{"pipeline", func(t *testing.T, on launchers) { checkLaunchedPipeline(t, on, chimeraOfFour...) }},
		{"pipeline of data ranks", func(t *testing.T, on launchers) { checkLaunchedPipeline(t, on, dataRanksOfTwo...) }},
		{"baselines", checkLaunchedBaselines},
		{"sample exchange", checkLaunchedPeers},
		{"meshes", checkParallelMatrix},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, onLaunchers) })
	}
}

// TestLongLateRanksOfALauncher is TestLateRanksOfALauncher with every system.
func TestLongLateRanksOfALauncher(t *testing.T) {
	checkLateRanks(t, slices.Sorted(maps.Keys(lateSystems)))
}
