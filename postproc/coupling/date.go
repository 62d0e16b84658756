package coupling

import (
	"errors"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Tests need a spread and dates to resample; cross pairs two members in each half.
const (
	minMembers = 2
	minHalved  = 4
)

var errTooFew = errors.New("coupling: tests need 2 dates and 2 members")

// Outputs are the calibrated members of one date, made of all raw members, of the first few, and of
// both halves apart. What was not made is nil: its tests are left out.
//
// Shape: each [member][point].
type Outputs struct {
	All     [][]float32
	Subsets [][][]float32 // in the order of Options.Sizes
	Halves  [2][][]float32
}

// sizes are the numbers of members of the input-size test.
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

// MemberSubset is some of the raw members of a date, of which calibrated ones are made that know no others.
type MemberSubset struct {
	Members []int // positions
	field   func(*Outputs) *[][]float32
}

// Store stores what was made of a part.
func (p MemberSubset) Store(to *Outputs, made [][]float32) { *p.field(to) = made }

// MemberSubsets are those that the tests need, all members first.
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

// Calibrate has a method make what the tests need of one date: calibrate gives the calibrated members
// made of those raw members alone, in memory of their own.
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

// Date is what one date adds to the tests.
type Date struct {
	Members int
	Error   []float32  // [point] mean of all members less what came true
	Spread  float64    // Σ w s² over the points with an error
	Sizes   []SizeSums // of all members, then of the few
	Cross   [3]float64 // Σ w, of the cross-pair score, of the fair one within the halves
}

// SizeSums are sums over points for members made of so many: of weights, of the fair CRPS and of s².
type SizeSums struct {
	Members int
	Sums    [3]float64
}

// SumDate sums up what was made for a date. Only weights of o are used.
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

func (o Options) weight(p int) float64 {
	if o.Weights == nil {
		return 1
	}
	return o.Weights[p]
}

// sum adds up weights and, times these, what of gives at n points; NaN is left out.
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

// column is one point of all members.
func column(x [][]float32, p int) []float64 {
	out := make([]float64, len(x))
	for i, f := range x {
		out[i] = float64(f[p])
	}
	return out
}

// NewTable makes the tests of a method from what its dates add, in their order:
//
//  1. Jacobian: leaks is the number of pairs of members of which one is reached by a change of the
//     other; below 0 it was not looked at.
//  2. R = (1+1/M) <s²>/<(m−y)²> of output less its local mean bias: 1 for reliable members.
//     Above 1 with a better fair CRPS is the mark of coupling.
//  3. Input size: fair CRPS and <s²> of the output of K members less those of all.
//  4. Cross pairs: CrossPair of halves of the input that are calibrated apart, less the fair
//     score of pairs within them.
//
// A test passes if its interval holds what is expected; the first, if nothing leaks. Those for which
// there is no output are left out.
//
// Errors: fewer than 2 dates or members, dates that are not alike.
func NewTable(leaks int, dates []Date, o Options) (Table, error) {
	if len(dates) < 2 || dates[0].Members < minMembers {
		return nil, errTooFew
	}
	for k, d := range dates {
		if d.Members != dates[0].Members || len(d.Error) != len(dates[0].Error) || len(d.Sizes) != len(dates[0].Sizes) {
			return nil, fmt.Errorf("coupling: date %d has %d members of %d points, the first %d of %d", k, d.Members, len(d.Error), dates[0].Members, len(dates[0].Error))
		}
	}
	m := dates[0].Members
	var table Table
	if leaks >= 0 {
		table = Table{{ID: "jacobian", Value: float64(leaks), Low: math.NaN(), High: math.NaN(), Decided: true, Passed: leaks == 0}}
	}
	row := func(id string, few int, want float64, rows [][]float64, of func(sums []float64) float64) error {
		v, low, high, err := o.Bootstrap.Interval(rows, of)
		table = append(table, Row{id, few, v, low, high, want, low <= high, low <= want && want <= high})
		return err
	}
	if err := row("r", 0, 1, o.ratios(dates), func(s []float64) float64 { return (1 + 1/float64(m)) * s[0] / s[1] }); err != nil {
		return nil, err
	}
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

// ratios are, by date, Σ w s² and Σ w (m−y)², the errors less their mean at each point.
func (o Options) ratios(dates []Date) [][]float64 {
	n := len(dates[0].Error)
	bias, count := make([]float64, n), make([]float64, n)
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
				sq += o.weight(p) * r * r * t / (t - 1) // the bias was taken from the same dates
			}
		}
		rows[k] = []float64{d.Spread, sq}
	}
	return rows
}
