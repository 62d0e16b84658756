package score

import (
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Better says which values of a score are good.
type Better uint8

// The directions.
const (
	Lower   Better = iota // smaller is better, 0 or less is perfect
	Zero                  // near 0 is better
	One                   // near 1 is better
	Higher                // larger is better
	Nominal               // the share that the name states is good
	Neither               // says something, but not what is good
)

// String names the direction for tables.
func (b Better) String() string {
	return [...]string{"lower", "near 0", "near 1", "higher", "nominal share", "-"}[b]
}

// Unit says what a score is measured in.
type Unit uint8

// The units.
const (
	SameAsVariable Unit = iota
	Dimensionless
	Squared // of the variable
)

// Need is a set of what a score needs to know of a system and its reference.
type Need uint16

// What a system may give. Members imply mean and spread.
const (
	Members    Need = 1 << iota // the members themselves
	Mean                        // location of the distribution, or ensemble mean
	Spread                      // its standard deviation
	FullSpread                  // standard deviation of the full ensemble, the target of spread_rmse
	Events                      // thresholds whose exceedance is forecast
	Index                       // extreme forecast index of each point
	Neighbours                  // the grid's rows
	Parameters                  // of a distribution of the system's family
	Quantiles                   // of the climate
	Tails                       // quantiles of the climate in steps of a hundredth, or less
	Leads                       // members at earlier leads too, as trajectories
	// Distribution is any of these: members, mean and spread, or parameters. Scores that
	// need it ask for probabilities and quantiles.
	Distribution
)

// Case is what is known at one grid point of one date.
type Case struct {
	Members    []float64 // ascending; empty if the system has none
	Mean       float64
	Spread     float64 // of members: divisor M−1
	FullSpread float64
	Obs        float64
	Index      float64      // extreme forecast index
	Climate    []float64    // quantiles of the climate at equal steps from 0 to 1
	Family     *dist.Family // nil: normal with Mean and Spread
	Parameters []float64    // of Family
	// Thresholds of events, and the forecast probability that each is exceeded. Scores
	// of one event look at number Event.
	Thresholds, Exceedance []float64
	ThresholdIndex         int

	location location
}

// Probability is the forecast that the event's threshold is exceeded, and whether it is.
func (c *Case) Probability() (p float64, happened bool) {
	return c.Exceedance[c.ThresholdIndex], c.Obs > c.Thresholds[c.ThresholdIndex]
}

// location is where on the grid a case is, for scores of several points.
type location struct {
	members    [][]float32 // in the system's order, [member][point]
	obs        []float32
	earlier    [][][]float32 // [lead][member][point] before those
	earlierObs [][]float32   // [lead][point], the reference at these leads
	p          int
	neighbours [2]int // the points east and south of it, −1 at the rim
}

// Sums are quantities that are added up over points and dates, and which several
// scores may share.
type Sums struct {
	// Size is how many numbers are summed for a system of so many members (0 for
	// distributions) and so many thresholds.
	Size func(members, thresholds int) int
	// Add adds a case of weight w.
	Add func(sums []float64, w float64, c *Case)
}

// Totals are the sums of a sample of dates.
type Totals struct {
	Sums    []float64 // Σ over dates and points, weights included
	Weight  float64   // Σ of the weights
	Members int       // of a system scored by its members, 0 for a distribution
}

// Score is a definition: what is averaged, and what becomes of the averages.
// With weights w (area, over the points that are not missing) and dates t,
//
//	value = Value( Σ_t Σ_p w_p Point(t,p) / Σ_t Σ_p w_p )
//
// so that a bootstrap over dates resamples the aggregated score, never a mean of
// roots.
type Score struct {
	ID         string // the name in files, never changed: "crps_fair"
	Name       string // for people
	Formula    string // plain text, <·> being the weighted mean over points and dates
	Doc        string // what it tells and what it does not
	Source     string
	Unit       Unit
	Better     Better
	Divisor    string // for members: of the variance or the pairs; "" if none enters
	Needs      Need
	MinMembers int // of a system scored by its members; 0 if it does not matter
	// NoSkillScore keeps a score from relative gains: one without a natural zero, or one that
	// resampling moves away from 0, as distances from a flat histogram.
	NoSkillScore bool
	// NormalOnly keeps a score from systems of another family: it takes their mean and spread
	// for a normal distribution's.
	NormalOnly bool
	// NeedsExpectedCRPS keeps a score from systems of families that say not what they expect of themselves.
	NeedsExpectedCRPS bool
	// DistributionsOnly keeps a score from systems of members, for which there is another.
	DistributionsOnly bool
	// Parts is the number of quantities averaged; Point fills them.
	Parts int
	Point func(parts []float64, c *Case)
	// SharedSums, in place of Parts and Point, are sums that scores share.
	SharedSums *Sums
	// PerDate, if set, turns the averages of one date, in place, into what is averaged
	// over dates, each date with its weight: for scores of whole fields.
	PerDate func(mean []float64, members int)
	// Value makes the score of the averages; members is that of a system scored
	// by its members and 0 for a distribution. nil: the score is a diagram only.
	Value func(mean []float64, members int) float64
	// Diagram makes a table of the sums: always the same number of rows.
	Diagram *DiagramSpec
}

// DiagramSpec is how a score becomes a table of numbers to be drawn.
type DiagramSpec struct {
	Columns []string // each with what it is: "probability", "frequency", …
	// IntervalColumn is the column that gets an interval from the resampled dates.
	IntervalColumn int
	// WeightColumn is the column with the weight of a row: rows without any are left out.
	WeightColumn int
	Rows         func(t *Totals) [][]float64
}

// IsPerThreshold says whether a score is made for every threshold by itself.
func (s *Score) IsPerThreshold() bool { return s.Needs&Events != 0 && s.SharedSums != rpsSums }

// size is how many numbers are summed.
func (s *Score) size(members, thresholds int) int {
	if s.SharedSums != nil {
		return s.SharedSums.Size(members, thresholds)
	}
	return s.Parts
}

// UnitOf is the unit of the score for a variable with the given unit.
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

// firstMean is the Value of scores that are plain averages.
func firstMean(mean []float64, _ int) float64 { return mean[0] }

// rootOfFirstMean is the Value of scores that are roots of averages.
func rootOfFirstMean(mean []float64, _ int) float64 { return math.Sqrt(mean[0]) }

// ByID finds a score of the table, or nil.
func ByID(id string) *Score {
	i := slices.IndexFunc(Table, func(s *Score) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return Table[i]
}

// exceedance is the probability that a value of the case lies above x: the share of
// members, or that of the family, or that of a normal distribution.
func (c *Case) exceedance(x float64) float64 {
	if m := len(c.Members); m > 0 {
		n, _ := slices.BinarySearchFunc(c.Members, x, func(v, x float64) int {
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

// quantile is the p quantile of the case: between order statistics for members, else that
// of the family, or of a normal distribution.
func (c *Case) quantile(p float64) float64 {
	if len(c.Members) > 0 {
		return quantile(c.Members, p)
	}
	if c.Family != nil {
		return c.Family.Quantile(c.Parameters, p)
	}
	return c.Mean + c.Spread*dist.NormalQuantile(p)
}
