package dist

import "slices"

// Rule is a loss function for the training of distributions.
type Rule string

// The rules.
const (
	CRPSRule         Rule = "crps"          // CRPS in closed form, for any family
	PinballRule      Rule = "pinball"       // twice the mean pinball loss, for Bernstein quantile functions
	CrossEntropyRule Rule = "cross_entropy" // cross entropy of logits and the bin of the observation, for histograms
)

// Size names the quantity that sets the number of parameters of a family.
type Size string

// The sizes.
const (
	NoSize Size = ""       // the number of parameters is fixed
	Degree Size = "degree" // degree of a polynomial
	Bins   Size = "bins"   // number of bins of a histogram, whose edges come from data
)

// fromParameters returns the size for a number of parameters, or 0 if there is none.
func (s Size) fromParameters(parameters int) int {
	switch {
	case s == Degree && parameters > 1:
		return parameters - 1
	case s == Bins && parameters > 2 && parameters%2 == 1:
		return parameters / 2
	}
	return 0
}

// Row is a line of Table: a family, or families that differ in a size only.
type Row struct {
	ID   string
	Size Size
	// New returns the family of a size, which is ignored for NoSize.
	New func(size int) *Family
	// Rules are the possible losses; the first is the default.
	Rules []Rule
	// Head: a network head can predict the family. Others are derived from predicted ones.
	Head bool
}

// Table lists all families.
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
	fixed(Student, notHead), // from calibration
	{BernsteinID, Degree, Bernstein, []Rule{CRPSRule, PinballRule}, isHead},
	{censoredBernsteinID, Degree, CensoredBernstein, []Rule{CRPSRule, PinballRule}, notHead}, // for variables without values below 0
	{HistogramID, Bins, Histogram, []Rule{CrossEntropyRule}, isHead},
}

// Values of Row.Head: predicted by a network head, or derived.
const (
	isHead  = true
	notHead = false
)

// fixed returns the row of a family without a size.
func fixed(f *Family, head bool) Row {
	return Row{ID: f.ID, New: func(int) *Family { return f }, Rules: []Rule{CRPSRule}, Head: head}
}

// someSize is a valid size of all families, for properties that do not depend on it.
const someSize = 2

// AnyFamily returns a family of the row, for properties that all of them share.
func (r Row) AnyFamily() *Family { return r.New(someSize) }

// HasRule reports whether rule is a loss of the family.
func (r Row) HasRule(rule Rule) bool { return slices.Contains(r.Rules, rule) }

// AverageFamily returns the family of an average of distributions of a size. The average of histograms has the bins of all of them.
func (r Row) AverageFamily(size, distributions int) *Family {
	if r.Size == Bins {
		size = distributions*(size-1) + 1
	}
	return r.New(size)
}

// RowByID returns the row of a family by its id.
func RowByID(id string) (r Row, ok bool) {
	if i := slices.IndexFunc(Table, func(r Row) bool { return r.ID == id }); i >= 0 {
		return Table[i], true
	}
	return Row{}, false
}

// HeadNames lists the ids of the families that network heads can predict and that fulfil have, in the order of Table; nil: all.
func HeadNames(have func(r Row) bool) (names []string) {
	for _, r := range Table {
		if r.Head && (have == nil || have(r)) {
			names = append(names, r.ID)
		}
	}
	return names
}

// FamilyByID returns the family with an id and a number of parameters, or nil.
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
