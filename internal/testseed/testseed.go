// Package testseed gives tests that sample their cases a seed that can be set.
package testseed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Of returns the seed that selects cases of a test, and logs it: 1, or that of ENSEMBLE_TEST_SEED.
func Of(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("ENSEMBLE_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d; ENSEMBLE_TEST_SEED sets another", seed)
	return seed
}

// All is the number of cases of a test that takes all.
const All = 1 << 30

// Some returns at most n of the cases in their order. Seed and name of the test select them, so that tests of the same cases take different ones.
func Some[C any](t *testing.T, cases []C, n int) []C {
	t.Helper()
	if n >= len(cases) {
		return cases
	}
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	chosen := rand.New(rand.NewPCG(Of(t), name.Sum64())).Perm(len(cases))[:n]
	slices.Sort(chosen)
	some := make([]C, n)
	for i, c := range chosen {
		some[i] = cases[c]
	}
	return some
}
