//go:build long

package train_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// TestLongSampled takes all cases of tests of which make test takes some.
func TestLongSampled(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(t *testing.T, n int)
	}{
		{"resumed compression", checkCompressionResumes},
		{"late ranks", checkLateRanksTrain},
		{"waiting exchange", checkWaitingExchange},
		{"replayed exchange", checkExchangeReplays},
		{"resumed exchange", checkExchangeResumes},
		{"resumed pruning", checkPruningResumes},
		{"baselines on ranks", checkBaselinesOnRanks},
		{"training on ranks", checkTrainOnRanks},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, testseed.All) })
	}
}
