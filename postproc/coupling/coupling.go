// Package coupling tests whether calibrated members are independent draws.
//
// Fair scores assume that they are. Members that were calibrated jointly, by attention
// over members or a common factor of the spread, are coupled: excessive spread then
// improves their fair scores without adding information. A coupled ensemble is not
// wrong, but has to be compared by plain scores.
//
// Source: Roberts 2026, arXiv:2602.15830 (fair scores reward coupled members).
package coupling

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Method calibrates members: any number of fields to as many fields.
type Method func(members [][]float32) ([][]float32, error)

// Dependence is a dependence of an output member on another input member. Points is the number of points that changed.
type Dependence struct{ From, To, Points int }

// Jacobian adds step to one member at a time, at every point, and lists the outputs of
// other members that change any bit: the off-diagonal of a finite-difference Jacobian. An
// empty result means that members are calibrated one by one.
//
// Shape: members [member][point]. Unit: step that of the members.
// Cost: M+1 runs of the method. Errors: those of the method, a wrong number of fields.
func Jacobian(f Method, members [][]float32, step float32) ([]Dependence, error) {
	run := func(in [][]float32) ([][]float32, error) {
		out, err := f(in)
		if err == nil && len(out) != len(in) {
			err = fmt.Errorf("coupling: the method returned %d members for %d", len(out), len(in))
		}
		return out, err
	}
	before, err := run(members)
	if err != nil {
		return nil, err
	}
	before = cloneFields(before) // the method may reuse its memory
	var leaks []Dependence
	for j := range members {
		in := cloneFields(members)
		for p := range in[j] {
			in[j][p] += step
		}
		after, err := run(in)
		if err != nil {
			return nil, err
		}
		for i := range after {
			n := 0
			for p, v := range after[i] {
				if math.Float32bits(v) != math.Float32bits(before[i][p]) {
					n++
				}
			}
			if i != j && n > 0 {
				leaks = append(leaks, Dependence{j, i, n})
			}
		}
	}
	return leaks, nil
}

// cloneFields returns a deep copy.
func cloneFields(x [][]float32) [][]float32 {
	out := make([][]float32, len(x))
	for i, f := range x {
		out[i] = append([]float32(nil), f...)
	}
	return out
}

// CrossPair computes two scores of two groups of members that were calibrated separately:
// cross, whose spread term has the pairs across the groups only
// (dist.CrossPairCRPSGrad), and within, with the pairs inside the groups,
//
//	mean_i |x_i−y| − ½ mean |x_i−x_j|
//
// Their difference measures coupling; its expectation is 0 for independent members.
// Coupling within a group changes the second term of within, but not that of cross.
//
// Shape: a, b [member], at least 2 in each. Unit: that of y. Missing: NaN in gives NaN.
// Source: Roberts 2026, arXiv:2602.15830.
func CrossPair(a, b []float64, y float64) (cross, within float64) {
	all := slices.Concat(a, b)
	var toObs, inside float64
	for _, v := range all {
		toObs += math.Abs(v - y)
	}
	pairs := 0
	for _, g := range [][]float64{a, b} {
		for i, v := range g {
			for _, w := range g[:i] {
				inside += math.Abs(v - w)
			}
		}
		pairs += len(g) * (len(g) - 1) / 2
	}
	return dist.CrossPairCRPSGrad(nil, all, len(a), y), toObs/float64(len(all)) - inside/float64(2*pairs)
}

// Options configure the tests. The zero value has equal weights and the default sizes.
type Options struct {
	Weights   []float64              // [point]; nil: equal
	Sizes     []int                  // numbers of input members of the input-size test; nil: 3 and 5
	Bootstrap significance.Bootstrap // of the intervals; the zero value is its default
}

// Row is the result of one test.
type Row struct {
	ID               string  // key of Tests
	Members          int     // number of input members in an input-size test; 0 in others
	Value, Low, High float64 // with its bootstrap interval, NaN with too few dates
	Expected         float64 // value of independent, reliable members
	Decided, Passed  bool    // Decided: there is an interval; Passed: it contains Expected
}

// String describes the value, for display.
func (r Row) String() string {
	if r.Members > 0 {
		return fmt.Sprintf(Tests[r.ID], r.Members)
	}
	return Tests[r.ID]
}

// Tests maps the id of each test to a description of its value. Those of input-size tests
// have a verb for the number of members.
var Tests = map[string]string{
	"jacobian":    "members that depend on another input member",
	"r":           "R = (1+1/M) <s²>/<(m−y)²>, local bias removed",
	"size_crps":   "fair CRPS from %d members relative to all, minus 1",
	"size_spread": "<s²> from %d members relative to all, minus 1",
	"cross_pair":  "cross-pair CRPS relative to the fair CRPS within groups, minus 1",
}

// Table holds the results of all tests.
type Table []Row
