package dist

import "slices"

// Rule is a score by which distributions are judged in training.
type Rule string

// The rules.
const (
	CRPSRule         Rule = "crps"          // of any family, in closed form
	PinballRule      Rule = "pinball"       // twice the mean pinball loss of a Bernstein quantile function
	CrossEntropyRule Rule = "cross_entropy" // of a histogram's logits and the number of the bin with the observation
)

// Size is what a family with as many parameters as one likes has a number of.
type Size string

// The sizes.
const (
	NoSize Size = ""       // the parameters of the family are what they are
	Degree Size = "degree" // of a polynomial
	Bins   Size = "bins"   // of a histogram, whose edges come from data
)

// fromParameters is the size of which there are so many parameters, or 0.
func (s Size) fromParameters(parameters int) int {
	switch {
	case s == Degree && parameters > 1:
		return parameters - 1
	case s == Bins && parameters > 2 && parameters%2 == 1:
		return parameters / 2
	}
	return 0
}

// Row is a line of Table: a family, or those of one form that differ in a size, and what is decided by which it is.
type Row struct {
	ID   string
	Size Size
	// New makes the family of a size, which one without takes none of.
	New func(size int) *Family
	// Rules are those by which it is scored, the first if nothing is said.
	Rules []Rule
	// Head says that networks can give it; others are made of theirs.
	Head bool
}

// Table has all families.
var Table = []Row{
	fixed(Normal, isHead),
	fixed(TruncatedNormal, isHead),
	fixed(CensoredNormal, isHead),
	fixed(ZeroNormal, isHead),
	fixed(LogNormal, isHead),
	fixed(Logistic, isHead),
	fixed(TruncatedLogistic, isHead),
	fixed(CensoredLogistic, isHead),
	fixed(CSGamma, isHead),
	fixed(Student, notHead), // by calibration
	{BernsteinID, Degree, Bernstein, []Rule{CRPSRule, PinballRule}, isHead},
	{censoredBernsteinID, Degree, CensoredBernstein, []Rule{CRPSRule, PinballRule}, notHead}, // of variables without values below 0
	{HistogramID, Bins, Histogram, []Rule{CrossEntropyRule}, isHead},
}

// Whether the heads of networks give a family, or it is made of what they give.
const (
	isHead  = true
	notHead = false
)

// fixed is the row of a family without a size.
func fixed(f *Family, head bool) Row {
	return Row{ID: f.ID, New: func(int) *Family { return f }, Rules: []Rule{CRPSRule}, Head: head}
}

// someSize is a size of which all families have one, to look at what does not depend on it.
const someSize = 2

// AnyFamily is a family of the row, for what all of them have in common.
func (r Row) AnyFamily() *Family { return r.New(someSize) }

// HasRule tells whether a rule is one of the family.
func (r Row) HasRule(rule Rule) bool { return slices.Contains(r.Rules, rule) }

// AverageFamily is the family of the average of so many distributions of a size: the average of histograms has the quantiles of all.
func (r Row) AverageFamily(size, distributions int) *Family {
	if r.Size == Bins {
		size = distributions*(size-1) + 1
	}
	return r.New(size)
}

// RowByID finds the row of a family by its name.
func RowByID(id string) (r Row, ok bool) {
	if i := slices.IndexFunc(Table, func(r Row) bool { return r.ID == id }); i >= 0 {
		return Table[i], true
	}
	return Row{}, false
}

// HeadNames are the names of the families that networks can give and that have some property, in the order of the table; nil is any.
func HeadNames(have func(r Row) bool) (names []string) {
	for _, r := range Table {
		if r.Head && (have == nil || have(r)) {
			names = append(names, r.ID)
		}
	}
	return names
}

// FamilyByID finds a family by its name and the number of its parameters; nil if there is none.
func FamilyByID(id string, parameters int) *Family {
	r, ok := RowByID(id)
	if !ok {
		return nil
	}
	size := 0
	if r.Size != NoSize {
		if size = r.Size.fromParameters(parameters); size == 0 {
			return nil
		}
	}
	if f := r.New(size); len(f.Parameters) == parameters {
		return f
	}
	return nil
}
