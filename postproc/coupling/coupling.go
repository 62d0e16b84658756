// Package coupling tests whether calibrated members know of each other. Fair scores take
// members for independent draws: those that were made together, by attention or by a
// common stretch of the spread, gain score by too much spread without knowing more.
//
// Source: Roberts 2026, arXiv:2602.15830 (fair scores reward coupled members).
package coupling

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Method calibrates members: any number of fields to as many.
type Method func(members [][]float32) ([][]float32, error)

// Leak is an output that a change of another member reached.
type Leak struct{ From, To, Points int }

// Jacobian changes one member at a time, by step at every point, and finds the outputs of
// other members that do not keep all their bits. None: members are calibrated one by one.
//
// Cost: M+1 runs of the method. Errors: those of the method, another number of fields.
func Jacobian(f Method, members [][]float32, step float32) ([]Leak, error) {
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
	before = copied(before) // the method may use its memory again
	var leaks []Leak
	for j := range members {
		in := copied(members)
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
				leaks = append(leaks, Leak{j, i, n})
			}
		}
	}
	return leaks, nil
}

func copied(x [][]float32) [][]float32 {
	out := make([][]float32, len(x))
	for i, f := range x {
		out[i] = append([]float32(nil), f...)
	}
	return out
}

// CrossPair is the CRPS of two groups of members that were calibrated apart, its spread
// taken between the groups only:
//
//	mean_i |x_i−y| − ½ mean_{a∈A, b∈B} |x_a−x_b|
//
// and the fair score with the spread of pairs within the groups, mean_i |x_i−y| −
// ½ mean |x_i−x_j|. Their difference measures coupling: 0 when members are independent.
//
// Shape: a, b [member], at least 2 in each. Missing: NaN in gives NaN.
func CrossPair(a, b []float64, y float64) (cross, within float64) {
	var near, between, inside float64
	pairs := 0
	for _, v := range a {
		near += math.Abs(v - y)
		for _, w := range b {
			between += math.Abs(v - w)
		}
	}
	for _, v := range b {
		near += math.Abs(v - y)
	}
	for _, g := range [][]float64{a, b} {
		for i, v := range g {
			for _, w := range g[:i] {
				inside += math.Abs(v - w)
			}
		}
		pairs += len(g) * (len(g) - 1) / 2
	}
	near /= float64(len(a) + len(b))
	return near - between/float64(2*len(a)*len(b)), near - inside/float64(2*pairs)
}

// Case is one date: raw members and what came true.
//
// Shape: Members [member][point], Obs [point]. Missing: NaN; the point is left out of its date.
type Case struct {
	Members [][]float32
	Obs     []float32
}

// Options say how the tests are made.
type Options struct {
	Weights   []float64 // [point], nil for equal ones
	Sizes     []int     // of the input-size test; nil means 3, 5 and all members
	Step      float32   // of the Jacobian test; 0 means 1
	Bootstrap score.Bootstrap
}

// Row is what one test found.
type Row struct {
	Test             string
	Value, Low, High float64 // interval of resampled dates, NaN where there is none
	Expected         string
	Passed           bool
}

// Table is the result of all tests.
type Table []Row

// Passed says whether all tests passed.
func (t Table) Passed() bool {
	for _, r := range t {
		if !r.Passed {
			return false
		}
	}
	return true
}

// Fprint writes the table.
func (t Table) Fprint(w io.Writer) error {
	p := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(p, "test\tvalue\tlow\thigh\texpected\tpassed\n")
	for _, r := range t {
		fmt.Fprintf(p, "%s\t%.5g\t%.5g\t%.5g\t%s\t%v\n", r.Test, r.Value, r.Low, r.High, r.Expected, r.Passed)
	}
	return p.Flush()
}

// Test makes all four tests on a method, over dates in order:
//
//  1. Jacobian, on the first date.
//  2. R = (1+1/M) <s²>/<(m−y)²> of output less its local mean bias: 1 for reliable members.
//     Above 1 with a better fair CRPS is the mark of coupling.
//  3. Input size: fair CRPS and <s²> of the output of K members less those of all.
//  4. Cross pairs: CrossPair of halves of the input that are calibrated apart, less the fair
//     score of pairs within them.
//
// A test passes if its interval holds what is expected; the first, if nothing leaks.
//
// Errors: fewer than 4 members or 2 dates, shapes, those of the method.
func Test(f Method, cases []Case, o Options) (Table, error) {
	if len(cases) < 2 || len(cases[0].Members) < 4 {
		return nil, errors.New("coupling: tests need 2 dates and 4 members")
	}
	m, n := len(cases[0].Members), len(cases[0].Obs)
	for k, c := range cases {
		if len(c.Members) != m || len(c.Obs) != n {
			return nil, fmt.Errorf("coupling: date %d has %d members of %d points, the first %d of %d", k, len(c.Members), len(c.Obs), m, n)
		}
	}
	if o.Step == 0 {
		o.Step = 1
	}
	if o.Sizes == nil {
		o.Sizes = []int{3, 5}
	}
	leaks, err := Jacobian(f, cases[0].Members, o.Step)
	if err != nil {
		return nil, err
	}
	nan := math.NaN()
	table := Table{{"members reached by a change of another", float64(len(leaks)), nan, nan, "0", len(leaks) == 0}}

	whole, err := outputs(f, cases, func(c Case) [][]float32 { return c.Members })
	if err != nil {
		return nil, err
	}
	row := func(name string, want float64, rows [][]float64, of func(sums []float64) float64) error {
		v, low, high, err := o.Bootstrap.Interval(rows, of)
		table = append(table, Row{name, v, low, high, fmt.Sprint(want), low <= want && want <= high})
		return err
	}
	if err := row("R = (1+1/M) <s²>/<(m−y)²>, debiased", 1, ratios(whole, cases, o), func(s []float64) float64 {
		return (1 + 1/float64(m)) * s[1] / s[2]
	}); err != nil {
		return nil, err
	}
	all := sizes(whole, cases, o)
	for _, k := range o.Sizes {
		if k >= m || k < 2 {
			continue
		}
		few, err := outputs(f, cases, func(c Case) [][]float32 { return c.Members[:k] })
		if err != nil {
			return nil, err
		}
		rows := sizes(few, cases, o)
		for i := range rows {
			rows[i] = append(rows[i], all[i]...)
		}
		if err := row(fmt.Sprintf("fair CRPS of %d members less that of %d, over it", k, m), 0, rows, func(s []float64) float64 { return (s[1]/s[0] - s[4]/s[3]) / (s[4] / s[3]) }); err != nil {
			return nil, err
		}
		if err := row(fmt.Sprintf("<s²> of %d members less that of %d, over it", k, m), 0, rows, func(s []float64) float64 { return (s[2]/s[0] - s[5]/s[3]) / (s[5] / s[3]) }); err != nil {
			return nil, err
		}
	}
	a, err := outputs(f, cases, func(c Case) [][]float32 { return c.Members[:m/2] })
	if err != nil {
		return nil, err
	}
	b, err := outputs(f, cases, func(c Case) [][]float32 { return c.Members[m/2:] })
	if err != nil {
		return nil, err
	}
	err = row("cross-pair CRPS less the fair one within groups, over it", 0, crosses(a, b, cases, o), func(s []float64) float64 { return (s[1] - s[2]) / s[2] })
	return table, err
}

// outputs runs the method on a part of the members of every date.
func outputs(f Method, cases []Case, part func(Case) [][]float32) ([][][]float32, error) {
	out := make([][][]float32, len(cases))
	for k, c := range cases {
		x, err := f(part(c))
		if err != nil {
			return nil, err
		}
		if len(x) != len(part(c)) {
			return nil, fmt.Errorf("coupling: %d members made of %d", len(x), len(part(c)))
		}
		out[k] = copied(x)
	}
	return out, nil
}

// each sums, for every date, weights and what of gives at its points; NaN is left out.
func each(cases []Case, o Options, parts int, of func(date, point int, to []float64)) [][]float64 {
	rows, v := make([][]float64, len(cases)), make([]float64, parts)
	for k, c := range cases {
		rows[k] = make([]float64, 1+parts)
		for p := range c.Obs {
			of(k, p, v)
			w, sum := 1.0, 0.0
			if o.Weights != nil {
				w = o.Weights[p]
			}
			for _, x := range v {
				sum += x
			}
			if math.IsNaN(sum) {
				continue
			}
			rows[k][0] += w
			for i, x := range v {
				rows[k][1+i] += w * x
			}
		}
	}
	return rows
}

// column is one point of all members.
func column(x [][]float32, p int) []float64 {
	out := make([]float64, len(x))
	for i, f := range x {
		out[i] = float64(f[p])
	}
	return out
}

// ratios are s² and (m−y)² less the mean of m−y at each point.
func ratios(x [][][]float32, cases []Case, o Options) [][]float64 {
	bias := make([]float64, len(cases[0].Obs))
	for p := range bias {
		n := 0.0
		for k, c := range cases {
			mean, _ := ensemble.MeanSpread(column(x[k], p), 1)
			if d := mean - float64(c.Obs[p]); !math.IsNaN(d) {
				bias[p] += d
				n++
			}
		}
		bias[p] /= n
	}
	t := float64(len(cases))
	return each(cases, o, 2, func(k, p int, to []float64) {
		mean, s := ensemble.MeanSpread(column(x[k], p), 1)
		d := mean - float64(cases[k].Obs[p]) - bias[p]
		to[0], to[1] = s*s, d*d*t/(t-1) // the bias was taken from the same dates
	})
}

// sizes are fair CRPS and s².
func sizes(x [][][]float32, cases []Case, o Options) [][]float64 {
	return each(cases, o, 2, func(k, p int, to []float64) {
		v := column(x[k], p)
		_, s := ensemble.MeanSpread(v, 1)
		to[0], to[1] = dist.KernelCRPS(v, float64(cases[k].Obs[p]), dist.Fair), s*s
	})
}

// crosses are the cross-pair score and the fair one within groups.
func crosses(a, b [][][]float32, cases []Case, o Options) [][]float64 {
	return each(cases, o, 2, func(k, p int, to []float64) {
		to[0], to[1] = CrossPair(column(a[k], p), column(b[k], p), float64(cases[k].Obs[p]))
	})
}
