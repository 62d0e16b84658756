// Package coupling tests whether calibrated members know of each other. Fair scores take
// members for independent draws: those that were made together, by attention or by a
// common stretch of the spread, gain score by too much spread without knowing more.
//
// Source: Roberts 2026, arXiv:2602.15830 (fair scores reward coupled members).
package coupling

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Method calibrates members: any number of fields to as many.
type Method func(members [][]float32) ([][]float32, error)

// Dependence is an output that a change of another member reached.
type Dependence struct{ From, To, Points int }

// Jacobian changes one member at a time, by step at every point, and finds the outputs of
// other members that do not keep all their bits. None: members are calibrated one by one.
//
// Cost: M+1 runs of the method. Errors: those of the method, another number of fields.
func Jacobian(f Method, members [][]float32, step float32) ([]Dependence, error) {
	run := func(in [][]float32) ([][]float32, error) {
		out, err := f(in)
		if err == nil && len(out) != len(in) {
			err = fmt.Errorf("coupling: %d members made of %d", len(out), len(in))
		}
		return out, err
	}
	before, err := run(members)
	if err != nil {
		return nil, err
	}
	before = cloneFields(before) // the method may use its memory again
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

func cloneFields(x [][]float32) [][]float32 {
	out := make([][]float32, len(x))
	for i, f := range x {
		out[i] = append([]float32(nil), f...)
	}
	return out
}

// CrossPair is the score of two groups of members that were calibrated apart, its spread taken between
// the groups only (dist.CrossPairCRPSGrad), and the same with the spread of pairs within the groups,
//
//	mean_i |x_i−y| − ½ mean |x_i−x_j|
//
// Their difference measures coupling: 0 on average when members are independent.
//
// Shape: a, b [member], at least 2 in each. Missing: NaN in gives NaN.
func CrossPair(a, b []float64, y float64) (cross, within float64) {
	all := slices.Concat(a, b)
	var near, inside float64
	for _, v := range all {
		near += math.Abs(v - y)
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
	return dist.CrossPairCRPSGrad(nil, all, len(a), y), near/float64(len(all)) - inside/float64(2*pairs)
}

// Options say how the tests are made.
type Options struct {
	Weights   []float64 // [point], nil for equal ones
	Sizes     []int     // of the input-size test; nil means 3, 5 and all members
	Bootstrap score.Bootstrap
}

// Row is what one test found.
type Row struct {
	ID               string  // of Tests
	Members          int     // of the smaller input of an input-size test; else 0
	Value, Low, High float64 // interval of resampled dates, NaN where there is none
	Expected         float64
	Decided, Passed  bool // not decided where dates do not suffice for an interval
}

// String says what was found, for people.
func (r Row) String() string {
	if r.Members > 0 {
		return fmt.Sprintf(Tests[r.ID], r.Members)
	}
	return Tests[r.ID]
}

// Tests are the names of tests with what they find, for people; those of input sizes have a verb
// for the number of members.
var Tests = map[string]string{
	"jacobian":    "members reached by a change of another",
	"r":           "R = (1+1/M) <s²>/<(m−y)²>, debiased",
	"size_crps":   "fair CRPS of %d members less that of all, over it",
	"size_spread": "<s²> of %d members less that of all, over it",
	"cross_pair":  "cross-pair CRPS less the fair one within groups, over it",
}

// Table is the result of all tests.
type Table []Row
