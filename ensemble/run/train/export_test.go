package train

// Names for tests that train through traintest, which imports this package.
const (
	PartWeights   = partWeights
	PartOptimizer = partOptimizer
	PartAverage   = partAverage
	PartBest      = partBest
)
