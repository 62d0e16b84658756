package score

// Better says which values of a score are good.
type Better uint8

// The directions.
const (
	Lower   Better = iota // smaller is better, 0 or less is perfect
	Zero                  // near 0 is better
	One                   // near 1 is better
	Neither               // says something, but not what is good
)

// String names the direction for tables.
func (b Better) String() string { return [...]string{"lower", "near 0", "near 1", "-"}[b] }

// Unit says what a score is measured in.
type Unit uint8

// The units.
const (
	SameAsVariable Unit = iota
	Dimensionless
)

// Need is a set of what a score needs to know of a system.
type Need uint8

// What a system may give. Members imply mean and spread.
const (
	Members    Need = 1 << iota // the members themselves
	Mean                        // location of the distribution, or ensemble mean
	Spread                      // its standard deviation
	FullSpread                  // standard deviation of the full ensemble, the target of spread_rmse
)

// Case is what is known at one grid point of one date.
type Case struct {
	Members    []float64 // scores may reorder them; empty if the system has none
	Mean       float64
	Spread     float64 // of members: divisor M−1
	FullSpread float64
	Obs        float64
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
	Needs      Need
	MinMembers int // of a system scored by its members; 0 if it does not matter
	// Parts is the number of quantities averaged; Point fills them.
	Parts int
	Point func(parts []float64, c *Case)
	// Value makes the score of the averages; members is that of a system scored
	// by its members and 0 for a distribution.
	Value func(mean []float64, members int) float64
}

// UnitOf is the unit of the score for a variable with the given unit.
func (s *Score) UnitOf(variable string) string {
	if s.Unit == Dimensionless {
		return "1"
	}
	return variable
}

// single is the Value of scores that are plain averages.
func single(mean []float64, _ int) float64 { return mean[0] }

// ByID finds a score of the table, or nil.
func ByID(id string) *Score {
	for _, s := range Table {
		if s.ID == id {
			return s
		}
	}
	return nil
}
