package product

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Kind is a published statistic. It is the suffix of variables and file names.
type Kind string

// The kinds. Products describe the post-processed distribution. Raw kinds describe
// the input members, for comparison.
const (
	Mean           Kind = "mean"            // post-processed mean
	Spread         Kind = "spread"          // post-processed standard deviation
	EnsembleSpread Kind = "ensemble_spread" // estimated spread of the full ensemble
	Quantile       Kind = "quantile"        // post-processed quantile at Field.Below
	Probability    Kind = "probability"     // probability of Field.Event, 0 to 1
	Member         Kind = "member"          // calibrated member Field.Member

	Neighbourhood    Kind = "neighbourhood"     // mean of the point probabilities
	NeighbourhoodAny Kind = "neighbourhood_any" // probability at one point or more

	// Parameter is Field.Parameter of the distribution Field.Distribution.
	Parameter Kind = "parameter"

	RawMean   Kind = "raw_mean"   // mean of the input members
	RawSpread Kind = "raw_spread" // standard deviation of the input members
)

// statistic is the description of a kind that all formats use.
type statistic struct {
	kind       Kind
	of         ensemble.Product
	longName   string // follows the name of the quantity
	cellMethod string // over realization; "" if CF has no method
	axis       axis   // along which the fields of one variable differ; noAxis for a single field

	// GRIB2: product definition template at an instant and over an interval (code
	// table 4.0), derived forecast (4.7), generating process (4.3), and MARS type
	// of ECMWF.
	template [2]int64
	derived  int64
	process  int64
	marsType string
}

// axis is the coordinate that distinguishes fields of one kind.
type axis uint8

const (
	noAxis axis = iota
	quantileAxis
	thresholdAxis
	memberAxis
)

// GRIB2 codes: derived forecast (code table 4.7) and generating process (4.3).
const (
	derivedMean   = 0  // unweighted mean of all members
	derivedSpread = 4  // spread of all members
	ensembleRun   = 4  // ensemble forecast
	postProcessed = 13 // post-processed forecast
)

var (
	memberTemplates      = [2]int64{1, 11}
	derivedTemplates     = [2]int64{2, 12}
	probabilityTemplates = [2]int64{5, 9}
	percentileTemplates  = [2]int64{6, 10}
	quantileTemplates    = [2]int64{86, 87} // quantiles that are not whole percentiles
	noTemplates          = [2]int64{}       // not defined in GRIB2
)

// statistics lists the kinds. A new kind is a row here; names, attributes and codes of
// all formats follow from it.
//
// Source: FM 92 GRIB2, code tables 4.0, 4.3 and 4.7; MARS, keyword type; CF section 7.3.
var statistics = []statistic{
	{Mean, ensemble.EnsembleMean, "post-processed ensemble mean", "realization: mean", noAxis, derivedTemplates, derivedMean, postProcessed, "em"},
	{Spread, ensemble.Spread, "post-processed ensemble spread", "realization: standard_deviation", noAxis, derivedTemplates, derivedSpread, postProcessed, "es"},
	{EnsembleSpread, ensemble.Spread, "estimated spread of the full ensemble", "realization: standard_deviation", noAxis, derivedTemplates, derivedSpread, postProcessed, "es"},
	{Quantile, ensemble.Quantile, "post-processed quantiles", "", quantileAxis, percentileTemplates, 0, postProcessed, "pb"},
	{Probability, ensemble.Probability, "", "", thresholdAxis, probabilityTemplates, 0, postProcessed, "ep"},
	{Member, ensemble.MemberField, "post-processed members", "", memberAxis, memberTemplates, 0, postProcessed, "pf"},
	{Neighbourhood, ensemble.Probability, "", "area: mean", thresholdAxis, noTemplates, 0, postProcessed, ""},
	{NeighbourhoodAny, ensemble.Probability, "", "area: maximum", thresholdAxis, noTemplates, 0, postProcessed, ""},
	{Parameter, ensemble.OtherProduct, "", "", noAxis, noTemplates, 0, postProcessed, ""},
	{RawMean, ensemble.EnsembleMean, "mean of the members used", "realization: mean", noAxis, derivedTemplates, derivedMean, ensembleRun, "em"},
	{RawSpread, ensemble.Spread, "spread of the members used", "realization: standard_deviation", noAxis, derivedTemplates, derivedSpread, ensembleRun, "es"},
}

// statisticOf returns the description of a kind. The result is false for a kind that is
// not in the table.
func statisticOf(k Kind) (statistic, bool) {
	for _, s := range statistics {
		if s.kind == k {
			return s, true
		}
	}
	return statistic{}, false
}

// probability reports whether the values are probabilities of an event.
func (s statistic) probability() bool { return s.axis == thresholdAxis }

// unit returns the unit of the values.
func (f Field) unit(s statistic, v ensemble.Variable) string {
	if s.probability() || f.Dimensionless {
		return "1"
	}
	return v.Unit
}

// standardName returns the CF standard name of a field: that of the quantity, none
// for probabilities and parameters.
func (s statistic) standardName(v ensemble.Variable) string {
	if s.probability() || s.kind == Parameter {
		return ""
	}
	return v.StandardName
}

// Statistic describes the statistic of a field: "mean", "quantile 0.1",
// "probability above 273.15", "member 3". It is unique among the fields of a
// variable, level and lead.
func (f Field) Statistic() string {
	switch f.Kind {
	case Quantile:
		return fmt.Sprintf("%s %s", f.Kind, decimal(f.Below))
	case Probability:
		return fmt.Sprintf("%s %s", f.Kind, f.Event)
	case Parameter:
		return fmt.Sprintf("%s %s", f.Kind, f.Parameter)
	case Neighbourhood, NeighbourhoodAny:
		return fmt.Sprintf("%s %s within %s km", f.Kind, f.Event, decimal(f.Radius/1000))
	case Member:
		return fmt.Sprintf("%s %s", f.Kind, f.Member)
	}
	return string(f.Kind)
}

// seriesName returns the name of the array with all fields that differ only along
// the axis of their kind: t2m_mean, t2m_quantile,
// probability_of_t2m_above_threshold, and t2m for members.
func (f Field) seriesName(v ensemble.Variable) string {
	switch f.Kind {
	case Probability, Neighbourhood, NeighbourhoodAny:
		limit := "threshold"
		if f.Event.Relation == ensemble.Between {
			limit = "thresholds"
		}
		return f.neighbourhoodName("probability_of_" + v.Identifier + "_" + f.Event.Relation.String() + "_" + limit)
	case Member:
		return v.Identifier
	case Parameter:
		return v.Identifier + ParameterInfix + f.Parameter
	}
	return v.Identifier + "_" + string(f.Kind)
}

// standaloneName returns the name of an array with this field only. CDO has no dimension
// for quantiles and thresholds, so the position is in the name: t2m_quantile_0p1.
func (f Field) standaloneName(v ensemble.Variable) string {
	switch f.Kind {
	case Quantile:
		return f.seriesName(v) + "_" + nameNumber(f.Below)
	case Probability, Neighbourhood, NeighbourhoodAny:
		return f.neighbourhoodName("probability_of_" + v.Identifier + "_" + f.eventName())
	case Member:
		return v.Identifier + "_" + string(f.Kind) + "_" + f.Member.String()
	}
	return f.seriesName(v)
}

// neighbourhoodName adds the radius to the name of a neighbourhood probability.
func (f Field) neighbourhoodName(name string) string {
	switch f.Kind {
	case Neighbourhood:
		return "neighbourhood_" + name + "_" + nameNumber(f.Radius/1000) + "km"
	case NeighbourhoodAny:
		return name + "_within_" + nameNumber(f.Radius/1000) + "km"
	}
	return name
}

// fileName returns the statistic in file names. All members of a variable are one
// product.
func (f Field) fileName() string {
	switch f.Kind {
	case Quantile:
		return string(f.Kind) + "_" + nameNumber(f.Below)
	case Probability:
		return string(f.Kind) + "_" + f.eventName()
	}
	return string(f.Kind)
}

// eventName returns the event in names. Limits are in SI: above_273p15.
func (f Field) eventName() string {
	name := f.Event.Relation.String() + "_"
	if f.Event.Relation == ensemble.Between {
		return name + nameNumber(f.Event.Lower) + "to" + nameNumber(f.Event.Upper)
	}
	return name + nameNumber(f.Event.Threshold())
}

// longName describes a field, without what differs along its axis.
//
// Source: for probabilities, the names of IMPROVER's files.
func (f Field) longName(v ensemble.Variable, s statistic) string {
	if s.kind == Parameter {
		return v.LongName + ", parameter " + f.Parameter + parameterOf + f.Distribution
	}
	if !s.probability() {
		return v.LongName + ", " + s.longName
	}
	named := v
	if v.StandardName != "" {
		named.Identifier = v.StandardName
	}
	return f.seriesName(named)
}

// ParameterInfix separates the identifier of a variable from the name of a
// parameter in array names.
const ParameterInfix = "_parameter_"

// parameterOf precedes the family in the long name of a parameter.
const parameterOf = " of distribution "

// ParameterNamed parses name and long name of an array with a parameter. It returns
// the short name of the variable, the parameter, and the ID of the distribution
// family. ok is false for other arrays.
func ParameterNamed(name, longName string) (variable, parameter, family string, ok bool) {
	variable, parameter, ok = strings.Cut(name, ParameterInfix)
	_, family, of := strings.Cut(longName, parameterOf)
	return ensemble.ShortName(variable), parameter, family, ok && of
}

// decimal formats a number with the minimum number of digits that identifies it.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// nameNumber formats a number for names: 2, 0p5, m3p25 for −3.25.
func nameNumber(v float64) string {
	s := strings.ReplaceAll(strconv.FormatFloat(v, 'f', -1, 64), ".", "p")
	return strings.ReplaceAll(s, "-", "m")
}

// percentile returns the whole percentile of a quantile. ok is false if it is not whole.
// The tolerance absorbs the rounding of 100·below, which is below 10⁻¹³.
func percentile(below float64) (p int64, ok bool) {
	p = int64(math.Round(100 * below))
	return p, math.Abs(100*below-float64(p)) < 1e-9
}

// ratio returns a quantile as GRIB2 stores it: the k-th of n quantiles, with the
// least n.
//
// The search is exhaustive, at most 65534 products, and finds n = 3 for 1/3.
//
// Errors: a quantile that is not a ratio of 16-bit numbers.
// Source: FM 92 GRIB2, templates 4.86 and 4.87: totalNumberOfQuantiles and quantileValue
// have two octets.
func ratio(below float64) (k, n int64, err error) {
	for n = 2; n < 1<<16; n++ {
		x := below * float64(n)
		if r := math.Round(x); math.Abs(x-r) < 1e-12*float64(n) && r > 0 && r < float64(n) {
			return int64(r), n, nil
		}
	}
	return 0, 0, fmt.Errorf("quantile %s is not a ratio of two numbers below 65536", decimal(below))
}

// gribTemplate returns the product definition template of a field. Whole percentiles
// have the older templates 4.6 and 4.10, which more readers support.
func (f Field) gribTemplate(s statistic) int64 {
	templates := s.template
	if s.kind == Quantile {
		if _, whole := percentile(f.Below); !whole {
			templates = quantileTemplates
		}
	}
	if f.Period > 0 {
		return templates[1]
	}
	return templates[0]
}

// gribKeys returns the keys of the statistic, except for the template.
//
// Errors: a quantile or limit that GRIB2 cannot encode.
// Source: FM 92 GRIB2, templates 4.1, 4.2, 4.5, 4.6 and 4.86, and those of intervals.
func (p *Product) gribKeys(f Field, s statistic) ([]encode.Key, error) {
	if s.template == noTemplates {
		return nil, fmt.Errorf("%s: GRIB2 has no product definition template", f.Statistic())
	}
	process := encode.LongKey("typeOfGeneratingProcess", s.process)
	count := encode.LongKey("numberOfForecastsInEnsemble", int64(p.members(f)))
	switch f.Kind {
	case Member:
		count = encode.LongKey("numberOfForecastsInEnsemble", int64(p.realizations(f)))
		return []encode.Key{encode.LongKey("perturbationNumber", int64(f.Member)), count, process}, nil
	case Probability:
		keys, err := limitKeys(f.Event)
		// Each event is a separate product: the first of one.
		return append(keys, encode.LongKey("forecastProbabilityNumber", 1), encode.LongKey("totalNumberOfForecastProbabilities", 1), process), err
	case Quantile:
		if p, whole := percentile(f.Below); whole {
			return []encode.Key{encode.LongKey("percentileValue", p), process}, nil
		}
		k, n, err := ratio(f.Below)
		return []encode.Key{encode.LongKey("totalNumberOfQuantiles", n), encode.LongKey("quantileValue", k), process}, err
	}
	return []encode.Key{encode.LongKey("derivedForecast", s.derived), count, process}, nil
}

// limitKeys sets type and limits of an event. Code table 4.9: 0 below the lower
// limit, 2 between the limits, 3 above the lower limit, as ECMWF encodes them.
//
// Events with equality (at_least, at_most) have no code. A limit that is not used is
// "missing": all bits are set.
//
// Unit: that of the parameter; inGRIBUnit has converted the limits.
// Source: FM 92 GRIB2, templates 4.5 and 4.9.
func limitKeys(e ensemble.Event) ([]encode.Key, error) {
	kind, ok := map[ensemble.Relation]int64{ensemble.Below: 0, ensemble.Between: 2, ensemble.Above: 3}[e.Relation]
	if !ok {
		return nil, fmt.Errorf("GRIB2 has no probability of the event %s", e)
	}
	keys := []encode.Key{encode.LongKey("probabilityType", kind)}
	lower, upper := e.Threshold(), math.NaN()
	if e.Relation == ensemble.Between {
		lower, upper = e.Lower, e.Upper
	}
	for _, l := range []struct {
		name string
		v    float64
	}{{"LowerLimit", lower}, {"UpperLimit", upper}} {
		if l.v != l.v {
			keys = append(keys, encode.MissingKey("scaleFactorOf"+l.name), encode.MissingKey("scaledValueOf"+l.name))
			continue
		}
		factor, value, ok := scaledNumber(l.v)
		if !ok {
			return nil, fmt.Errorf("limit %s has more digits than 32 bits", decimal(l.v))
		}
		keys = append(keys, encode.LongKey("scaleFactorOf"+l.name, factor), encode.LongKey("scaledValueOf"+l.name, value))
	}
	return keys, nil
}
