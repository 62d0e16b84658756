package train

import "time"

// SetClock sets the clock that determines when checkpoints are due.
func (o *Options) SetClock(now func() time.Time) { o.now = now }

// Names for tests that train through traintest, which imports this package.
const (
	PartWeights   = partWeights
	PartOptimizer = partOptimizer
	PartAverage   = partAverage
	PartBest      = partBest
)
