package coupling

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// A spread needs two members, and a cross-pair test two in each half.
const (
	minMembers = 2
	minHalved  = 4
)

var errTooFew = errors.New("coupling: too few cases: want at least 2 dates and 2 members")

// Outputs holds the calibrated members of one date: from all raw members, from the first
// few of them, and from both halves separately. Tests of nil outputs are skipped.
//
// Shape: each [member][point].
type Outputs struct {
	All     [][]float32
	Subsets [][][]float32  // in the order of Options.Sizes
	Halves  [2][][]float32 // first and second half of the members
}

// sizes returns the numbers of members of the input-size test that are below members.
func (o Options) sizes(members int) (out []int) {
	if o.Sizes == nil {
		o.Sizes = []int{3, 5}
	}
	for _, k := range o.Sizes {
		if k < members && k >= minMembers {
			out = append(out, k)
		}
	}
	return out
}

// MemberSubset is a subset of the raw members of a date that is calibrated without the others.
type MemberSubset struct {
	Members []int // positions on the member axis
	// field returns the field of Outputs that holds the result.
	field func(*Outputs) *[][]float32
}

// Store stores the calibrated members of the subset in to.
func (p MemberSubset) Store(to *Outputs, made [][]float32) { *p.field(to) = made }

// MemberSubsets lists the subsets that the tests need, all members first.
func (o Options) MemberSubsets(members int) []MemberSubset {
	part := func(lo, hi int, place func(*Outputs) *[][]float32) MemberSubset {
		p := MemberSubset{field: place}
		for m := lo; m < hi; m++ {
			p.Members = append(p.Members, m)
		}
		return p
	}
	parts := []MemberSubset{part(0, members, func(x *Outputs) *[][]float32 { return &x.All })}
	sizes := o.sizes(members)
	for i, k := range sizes {
		parts = append(parts, part(0, k, func(x *Outputs) *[][]float32 {
			if x.Subsets == nil {
				x.Subsets = make([][][]float32, len(sizes))
			}
			return &x.Subsets[i]
		}))
	}
	if members >= minHalved {
		for i, lo := range []int{0, members / 2} {
			parts = append(parts, part(lo, lo+(members+i)/2, func(x *Outputs) *[][]float32 { return &x.Halves[i] }))
		}
	}
	return parts
}

// Calibrate calls calibrate for every subset of one date. calibrate returns the calibrated
// members of the given raw members alone, in memory of their own.
//
// Errors: those of calibrate.
func (o Options) Calibrate(members int, calibrate func(of []int) ([][]float32, error)) (out Outputs, err error) {
	for _, p := range o.MemberSubsets(members) {
		made, err := calibrate(p.Members)
		if err != nil {
			return out, err
		}
		p.Store(&out, made)
	}
	return out, nil
}

// Date holds the contribution of one date to the tests.
type Date struct {
	Members int
	Error   []float32  // [point] mean of all members minus observation
	Spread  float64    // Σ w s² over the points with an error
	Sizes   []SizeSums // from all members, then from each subset
	Cross   [3]float64 // Σ w, Σ w·cross-pair score, Σ w·fair score within the halves
}

// IsLike reports whether two dates have the same numbers of members, points and subsets.
func (d Date) IsLike(o Date) bool {
	return d.Members == o.Members && len(d.Error) == len(o.Error) &&
		slices.EqualFunc(d.Sizes, o.Sizes, func(a, b SizeSums) bool { return a.Members == b.Members })
}

// SizeSums holds sums over points of outputs from a number of members: Σ w, Σ w·fair CRPS and
// Σ w·s², with s the spread of the output.
type SizeSums struct {
	Members int
	Sums    [3]float64
}

// SumDate sums the outputs of one date. It uses the weights of o only.
//
// Source: Ferro 2014, doi:10.1002/qj.2270 (fair CRPS); Roberts 2026, arXiv:2602.15830
// (cross pairs).
func (o Options) SumDate(out Outputs, obs []float32) Date {
	d := Date{Members: len(out.All), Error: make([]float32, len(obs))}
	for p, y := range obs {
		mean, s := ensemble.MeanSpread(column(out.All, p), 1)
		d.Error[p] = float32(mean - float64(y))
		if d.Error[p] == d.Error[p] {
			d.Spread += o.weight(p) * s * s
		}
	}
	for _, x := range append([][][]float32{out.All}, out.Subsets...) {
		size := SizeSums{Members: len(x)}
		o.sum(size.Sums[:], len(obs), func(p int, to []float64) {
			v := column(x, p)
			_, s := ensemble.MeanSpread(v, 1)
			to[0], to[1] = dist.KernelCRPS(v, float64(obs[p]), dist.Fair), s*s
		})
		d.Sizes = append(d.Sizes, size)
	}
	if a, b := out.Halves[0], out.Halves[1]; a != nil {
		o.sum(d.Cross[:], len(obs), func(p int, to []float64) {
			to[0], to[1] = CrossPair(column(a, p), column(b, p), float64(obs[p]))
		})
	}
	return d
}

// weight is the weight of point p.
func (o Options) weight(p int) float64 {
	if o.Weights == nil {
		return 1
	}
	return o.Weights[p]
}

// sum adds the weights, and the values of n points times their weights, to to. Points with NaN are left out.
func (o Options) sum(to []float64, n int, of func(point int, to []float64)) {
	v := make([]float64, len(to)-1)
	for p := range n {
		of(p, v)
		var all float64
		for _, x := range v {
			all += x
		}
		if math.IsNaN(all) {
			continue
		}
		to[0] += o.weight(p)
		for i, x := range v {
			to[1+i] += o.weight(p) * x
		}
	}
}

// column returns the values of all members at point p.
func column(x [][]float32, p int) []float64 {
	out := make([]float64, len(x))
	for i, f := range x {
		out[i] = float64(f[p])
	}
	return out
}

// NewTable computes the tests of a method from the sums of its dates, in temporal order:
//
//  1. Jacobian: leaks is the number of pairs of members where one output depends on the
//     other input; below 0: not tested.
//  2. R = (1+1/M) <s²>/<(m−y)²> of the output without its local mean bias; 1 for
//     reliable members. R > 1 with a better fair CRPS indicates coupling.
//  3. Input size: fair CRPS and <s²> of the output from K members relative to those from
//     all. Expected 0.
//  4. Cross pairs: CrossPair of the halves relative to the fair score of pairs within
//     them. Expected 0.
//
// A test passes if its interval contains the expected value; the first if leaks is 0.
// Tests without output are left out.
//
// Errors: fewer than 2 dates or members, dates of different shape.
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1 (R); Roberts 2026,
// arXiv:2602.15830 (input size, cross pairs).
func NewTable(leaks int, dates []Date, o Options) (Table, error) {
	if len(dates) < 2 || dates[0].Members < minMembers {
		return nil, errTooFew
	}
	for k, d := range dates {
		if !d.IsLike(dates[0]) {
			return nil, fmt.Errorf("coupling: date %d has %d members of %d points, date 0 has %d of %d", k, d.Members, len(d.Error), dates[0].Members, len(dates[0].Error))
		}
	}
	m := dates[0].Members
	var table Table
	if leaks >= 0 {
		table = Table{{ID: "jacobian", Value: float64(leaks), Low: math.NaN(), High: math.NaN(), Decided: true, Passed: leaks == 0}}
	}
	// row appends a test of a function of sums over dates.
	row := func(id string, few int, want float64, rows [][]float64, of func(sums []float64) float64) error {
		v, low, high, err := o.Bootstrap.Interval(rows, of)
		table = append(table, Row{id, few, v, low, high, want, low <= high, low <= want && want <= high})
		return err
	}
	if err := row("r", 0, 1, o.ratios(dates), func(s []float64) float64 { return (1 + 1/float64(m)) * s[0] / s[1] }); err != nil {
		return nil, err
	}
	// of collects the sums of all dates, [date][quantity], for the bootstrap.
	of := func(get func(Date) []float64) [][]float64 {
		rows := make([][]float64, len(dates))
		for k, d := range dates {
			rows[k] = get(d)
		}
		return rows
	}
	for i, size := range dates[0].Sizes[1:] {
		rows := of(func(d Date) []float64 { return append(d.Sizes[1+i].Sums[:], d.Sizes[0].Sums[:]...) })
		for k, id := range []string{"size_crps", "size_spread"} {
			if err := row(id, size.Members, 0, rows,
				func(s []float64) float64 { return (s[1+k]/s[0] - s[4+k]/s[3]) / (s[4+k] / s[3]) }); err != nil {
				return nil, err
			}
		}
	}
	if dates[0].Cross[0] == 0 {
		return table, nil
	}
	err := row("cross_pair", 0, 0, of(func(d Date) []float64 { return d.Cross[:] }), func(s []float64) float64 { return (s[1] - s[2]) / s[2] })
	return table, err
}

// ratios returns for each date Σ w s² and Σ w (m−y)². The mean error at each point is
// removed first; the factor t/(t−1) corrects for its estimation from the same t dates.
func (o Options) ratios(dates []Date) [][]float64 {
	n := len(dates[0].Error)
	bias, count := make([]float64, n), make([]float64, n) // Σ error and number of dates at each point
	for _, d := range dates {
		for p, e := range d.Error {
			if e == e {
				bias[p] += float64(e)
				count[p]++
			}
		}
	}
	t := float64(len(dates))
	rows := make([][]float64, len(dates))
	for k, d := range dates {
		var sq float64
		for p, e := range d.Error {
			if e == e {
				r := float64(e) - bias[p]/count[p]
				sq += o.weight(p) * r * r * t / (t - 1)
			}
		}
		rows[k] = []float64{d.Spread, sq}
	}
	return rows
}
