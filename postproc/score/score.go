package score

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Better is the direction in which a score improves.
type Better uint8

// The directions.
const (
	Lower   Better = iota // smaller is better, 0 or less is perfect
	Zero                  // near 0 is better
	One                   // near 1 is better
	Higher                // larger is better
	Nominal               // near the probability in the name is better
	Neither               // descriptive: no value is better
)

// String is the direction as tables print it.
func (b Better) String() string {
	return [...]string{"lower", "near 0", "near 1", "higher", "nominal share", "-"}[b]
}

// Unit is the unit of a score relative to that of the variable.
type Unit uint8

// The units.
const (
	SameAsVariable Unit = iota
	Dimensionless
	Squared // of the variable
)

// Need is a set of inputs that a score requires, or that a system and its reference provide.
type Need uint16

// The inputs. Members imply mean and spread.
const (
	Members    Need = 1 << iota // the members
	Mean                        // mean of the members or of the distribution
	Spread                      // standard deviation of the members (divisor M−1) or of the distribution
	FullSpread                  // standard deviation of the full ensemble, the target of spread_rmse
	Events                      // thresholds of exceedance events
	Index                       // extreme forecast index at each point
	Neighbours                  // a grid with rows
	Parameters                  // parameters of the system's family
	Quantiles                   // quantiles of the climate
	Tails                       // quantiles of the climate in steps of at most a hundredth
	Leads                       // members at earlier leads: trajectories
	Levels                      // probabilities of quantiles
	Fractions                   // means over the neighbourhood of each point
	// Distribution is one of: members, mean and spread, parameters. Scores that need it use
	// probabilities and quantiles only.
	Distribution
)

// Case holds the forecast of one system and the observation at one grid point and date.
//
// Unit: that of the variable.
type Case struct {
	Members    []float64 // ascending; empty for distributions
	Mean       float64
	Spread     float64 // standard deviation; of members with divisor M−1
	FullSpread float64
	Obs        float64
	Index      float64      // extreme forecast index
	Climate    []float64    // quantiles of the climate at equal steps of probability from 0 to 1
	Family     *dist.Family // nil: the normal distribution with Mean and Spread
	Parameters []float64    // of Family
	// Thresholds are the limits of events, and Exceedance the forecast probabilities of
	// exceeding them. Scores of one event use the threshold number ThresholdIndex.
	Thresholds, Exceedance []float64
	// Levels are probabilities, and Quantiles the forecast's quantiles of these.
	Levels, Quantiles []float64
	ThresholdIndex    int // of Thresholds or Levels

	location location
}

// Probability returns the forecast probability of exceeding the threshold, and whether the observation exceeds it.
func (c *Case) Probability() (p float64, happened bool) {
	return c.Exceedance[c.ThresholdIndex], c.Obs > c.limit(c.ThresholdIndex)
}

// limit is the largest value that does not exceed a threshold, in the precision of the data.
func (c *Case) limit(threshold int) float64 {
	if c.location.limits != nil {
		return c.location.limits[threshold]
	}
	return ensemble.AboveLimit(c.Thresholds[threshold])
}

// location is the position of a case on the grid, for scores of several points, and what it shares with
// other points.
type location struct {
	members    [][]float32 // in the system's order, [member][point]
	exceedance [][]float32 // published, [threshold][point]
	quantiles  [][]float32 // published, [level][point]
	limits     []float64   // of the thresholds, as ensemble.AboveLimit
	obs        []float32
	earlier    [][][]float32 // [lead][member][point], the members at earlier leads
	earlierObs [][]float32   // [lead][point], the observations at earlier leads
	p          int
	neighbours [2]int          // the points east and south of p, −1 at the edge
	fractions  *fractionFields // of the system; nil without a radius
}

// Sums are quantities summed over points and dates. Several scores may share them.
type Sums struct {
	// Size is the length of the sums for a number of members (0 for distributions) and of
	// thresholds.
	Size func(members, thresholds int) int
	// Add adds a case of weight w.
	Add func(sums []float64, w float64, c *Case)
}

// Totals are the sums over a sample of dates.
type Totals struct {
	Sums    []float64 // Σ over dates and points, weights included
	Weight  float64   // Σ of the weights
	Members int       // number of members scored; 0: a distribution
}

// Score defines a score: the quantities to average, and the function of the averages.
// With weights w (area, over the points that are not missing) and dates t,
//
//	value = Value( Σ_t Σ_p w_p Point(t,p) / Σ_t Σ_p w_p )
//
// The bootstrap over dates therefore resamples the aggregated score, not a mean of
// roots.
type Score struct {
	ID         string // name in files and options: "crps_fair"
	Name       string // name for display
	Formula    string // plain text; <·> is the weighted mean over points and dates
	Doc        string // interpretation and limits, one sentence
	Source     string
	Unit       Unit
	Better     Better
	Divisor    string // divisor of the variance or of the pairs of members; "": none
	Needs      Need
	MinMembers int // least number of members of an ensemble; 0: no limit
	// NoSkillScore excludes the score from skill scores: it has no natural zero, or resampling
	// moves it away from 0, as distances from a flat histogram.
	NoSkillScore bool
	// NormalOnly excludes systems with a family: the score is that of the normal distribution
	// with their mean and spread.
	NormalOnly bool
	// NeedsExpectedCRPS excludes systems whose family has no closed form of the expected CRPS.
	NeedsExpectedCRPS bool
	// DistributionsOnly excludes ensembles, which have a score of their own.
	DistributionsOnly bool
	// Parts is the number of quantities averaged; Point computes them.
	Parts int
	Point func(parts []float64, c *Case)
	// SharedSums replaces Parts and Point by sums that several scores share.
	SharedSums *Sums
	// Grouped adds up SharedSums, a table of probabilities, in groups that all systems share.
	Grouped bool
	// PerDate computes, in place, the value of one date from its averages, for scores of
	// whole fields. These values are averaged over dates with the weight of each date.
	// nil: points are averaged directly.
	PerDate func(mean []float64, members int)
	// Value computes the score from the averages; members is 0 for a distribution.
	// nil: the score is a diagram only.
	Value func(mean []float64, members int) float64
	// Diagram defines a table computed from the sums. nil: none.
	Diagram *DiagramSpec
}

// DiagramSpec defines the table of numbers of a diagram. The number of rows is constant.
type DiagramSpec struct {
	Columns []string // names: "probability", "frequency", …
	// IntervalColumn is the index of the column that has a bootstrap interval.
	IntervalColumn int
	// WeightColumn is the index of the column with the weight of a row; rows of weight 0 are left
	// out. −1: all rows are kept.
	WeightColumn int
	// Least and Most limit the intervals.
	Least, Most float64
	Rows        func(t *Totals) [][]float64
}

// limits cuts an interval to the values that the score can take. A value outside, such as
// a negative fair score, stays inside its interval.
func (s *Score) limits(value, low, high float64) (float64, float64) {
	if s.Better == Lower && s != LogGauss || s.Better == One && s != Correlation || s.Better == Nominal || s.Better == Neither && s.Unit == SameAsVariable || s.Grouped || s == ROCArea {
		low = min(value, max(low, 0))
	}
	if s.Better == Higher || s.Better == Nominal || s == Correlation {
		high = max(value, min(high, 1))
	}
	return low, high
}

// isSumOfSquares reports whether the score is a squared distance from a perfect forecast.
func (s *Score) isSumOfSquares() bool { return s.Grouped && s.Better == Lower }

// isPart reports whether the score is a part of another or the distance of a histogram from a flat one.
func (s *Score) isPart() bool { return s.SharedSums != nil && s.NoSkillScore }

// IsPerThreshold reports whether the score is computed for every threshold separately.
func (s *Score) IsPerThreshold() bool { return s.Needs&Events != 0 && s.SharedSums != rpsSums }

// IsPerQuantile reports whether the score is computed for every probability of a quantile separately.
func (s *Score) IsPerQuantile() bool { return s.Needs&Levels != 0 }

// Label names a score in tables: with its threshold or the probability of its quantile.
//
//	brier > 273.15, quantile_score p = 0.1
func Label(id string, threshold Number) string {
	s := ByID(id)
	number := strconv.FormatFloat(float64(threshold), 'g', -1, 64)
	switch {
	case s == nil:
		return id
	case s.IsPerThreshold():
		return id + " > " + number
	case s.IsPerQuantile():
		return id + " p = " + number
	}
	return id
}

// Inputs describes the systems that the score is for, and what else it needs.
func (s *Score) Inputs() string {
	members := "members"
	if s.Divisor != "" {
		members += " (" + s.Divisor + ")"
	}
	of := members + ", distributions"
	switch {
	case s.Needs&Members != 0:
		of = members
	case s.Needs&Parameters != 0:
		of = "families"
	case s.DistributionsOnly:
		of = "distributions"
	}
	for _, n := range []struct {
		need Need
		what string
	}{{Events, "thresholds"}, {Levels, "levels of quantiles"}, {Index, "an extreme forecast index"}, {Quantiles | Tails, "a climate"}, {Neighbours, "a grid"}, {Fractions, "a radius"}, {Leads, "earlier leads"}, {FullSpread, "the full ensemble"}} {
		if s.Needs&n.need != 0 {
			of += " with " + n.what
		}
	}
	return of
}

// size is the number of sums for a system.
func (s *Score) size(members, thresholds int) int {
	if s.SharedSums != nil {
		return s.SharedSums.Size(members, thresholds)
	}
	return s.Parts
}

// UnitOf is the unit of the score for a variable with the given unit, in UDUNITS notation.
func (s *Score) UnitOf(variable string) string {
	switch s.Unit {
	case Dimensionless:
		return "1"
	case Squared:
		if strings.ContainsAny(variable, " /") {
			return "(" + variable + ")2"
		}
		return variable + "2"
	}
	return variable
}

// firstMean is the Value of scores that are one average.
func firstMean(mean []float64, _ int) float64 { return mean[0] }

// rootOfFirstMean is the Value of scores that are the root of one average.
func rootOfFirstMean(mean []float64, _ int) float64 { return math.Sqrt(mean[0]) }

// ByID returns the score with an id, or nil.
func ByID(id string) *Score {
	i := slices.IndexFunc(Table, func(s *Score) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return Table[i]
}

// exceedance is the forecast probability of values above x: the fraction of members above
// limit, or from the family or the normal distribution.
func (c *Case) exceedance(x, limit float64) float64 {
	if m := len(c.Members); m > 0 {
		n, _ := slices.BinarySearchFunc(c.Members, limit, func(v, x float64) int {
			if v > x {
				return 1
			}
			return -1
		})
		return float64(m-n) / float64(m)
	}
	if c.Family != nil {
		return 1 - c.Family.CDF(c.Parameters, x)
	}
	if c.Spread == 0 {
		if c.Mean > x {
			return 1
		}
		return 0
	}
	return dist.NormalCDF((c.Mean - x) / c.Spread)
}

// quantile is the p quantile of the forecast: interpolated between order statistics of
// members, or from the family or the normal distribution.
func (c *Case) quantile(p float64) float64 {
	if len(c.Members) > 0 {
		return dist.EmpiricalQuantile(c.Members, p)
	}
	if c.Family != nil {
		return c.Family.Quantile(c.Parameters, p)
	}
	return c.Mean + c.Spread*dist.NormalQuantile(p)
}
