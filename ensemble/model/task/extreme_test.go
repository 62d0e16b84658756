package task

import (
	"math"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TestExtremesWeighMore: a point whose members are all above the climatology has the index 1 and
// the weight 1 + factor; without climatology the weight does not change.
func TestExtremesWeighMore(t *testing.T) {
	e := &extremeWeights{factor: 3, climate: []*score.Climate{{Steps: 2, Windows: 1, Days: 366,
		Quantiles: []float32{0, 0, float32(math.NaN()), 1, 1, 1, 2, 2, 2}}}}
	valid := ensemble.Valid{Time: time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC)}
	weights := []float32{0.5, 0.5, 0.5}
	e.apply(weights, 0, valid, [][]float32{{9, 0.9, 9}, {9, 1.1, 9}})
	index := math.Abs(score.EFI([]float64{0, 1, 2}, []float64{0.9, 1.1}))
	for p, want := range []float64{0.5 * 4, 0.5 * (1 + 3*index), 0.5} {
		if math.Abs(float64(weights[p])-want) > 1e-6 {
			t.Errorf("point %d: weight %g, want %g", p, weights[p], want)
		}
	}
	(*extremeWeights)(nil).apply(weights, 0, valid, nil)
}
