package product

import "github.com/ensemble-weather/ensemble/ensemble"

// Kind is a statistic that we publish. It ends the names of variables and files.
type Kind string

// The kinds. A product has a mean and a spread; the raw ones beside them are of
// the members it was made from, for comparison.
const (
	Mean           Kind = "mean"            // post-processed mean
	Spread         Kind = "spread"          // post-processed standard deviation
	EnsembleSpread Kind = "ensemble_spread" // estimate of the spread of the full ensemble
	RawMean        Kind = "raw_mean"        // mean over the members used
	RawSpread      Kind = "raw_spread"      // standard deviation over the members used
)

// statistic is what the formats need to know of a kind.
type statistic struct {
	kind       Kind
	of         ensemble.Product
	longName   string // follows the name of the quantity
	cellMethod string // over realization
	derived    int64  // GRIB2 code table 4.7
	process    int64  // GRIB2 code table 4.3
	marsType   string // ECMWF's type
}

// GRIB2 codes: table 4.7 derived forecast, table 4.3 generating process.
const (
	derivedMean   = 0  // unweighted mean of all members
	derivedSpread = 4  // spread of all members
	ensembleRun   = 4  // ensemble forecast
	postProcessed = 13 // post-processed forecast
)

var statistics = []statistic{
	{Mean, ensemble.EnsembleMean, "post-processed ensemble mean", "realization: mean", derivedMean, postProcessed, "em"},
	{Spread, ensemble.Spread, "post-processed ensemble spread", "realization: standard_deviation", derivedSpread, postProcessed, "es"},
	{EnsembleSpread, ensemble.Spread, "estimated spread of the full ensemble", "realization: standard_deviation", derivedSpread, postProcessed, "es"},
	{RawMean, ensemble.EnsembleMean, "mean of the members used", "realization: mean", derivedMean, ensembleRun, "em"},
	{RawSpread, ensemble.Spread, "spread of the members used", "realization: standard_deviation", derivedSpread, ensembleRun, "es"},
}

func statisticOf(k Kind) (statistic, bool) {
	for _, s := range statistics {
		if s.kind == k {
			return s, true
		}
	}
	return statistic{}, false
}
