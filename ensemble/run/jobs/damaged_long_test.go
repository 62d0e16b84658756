//go:build long

package jobs

import (
	"testing"
	"time"
)

// Trainings that nobody watches: a hundred random configurations on random damage. The seeds are the numbers from 1.
func TestLongTrainingsOnDamage(t *testing.T) {
	var finished, refused, published, fallenBack int
	var largest float64
	for seed := range uint64(100) {
		o := trainOnDamage(t, seed+1, 10*time.Minute)
		t.Log(o)
		switch {
		case o.trained != nil || o.predicted != nil:
			refused++
		default:
			finished++
		}
		published, fallenBack, largest = published+o.published, fallenBack+o.fallenBack, max(largest, o.largest)
	}
	t.Logf("%d trainings finished and predicted, %d ended with a refusal; %d forecasts published, %d by the fallback, at most %.2f of the bound from their ensemble", finished, refused, published, fallenBack, largest)
	if finished < 25 || refused < 10 {
		t.Errorf("%d finished, %d refused: the draws do not try both", finished, refused)
	}
}
