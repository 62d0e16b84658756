package fio

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// isDerived reports whether a field is computed from others, such as the precipitation of 6 h from the
// sums since the initialisation. A derived entry has the position of one of its terms, and no message of
// its own.
func isDerived(e ensemble.Entry) bool { return e.Derivation != nil }

// derivePoints bounds the values of terms that are in memory at a time. Each is a
// float32, so a group of terms takes 16 MiB, and more only if one field has more.
const derivePoints = 1 << 22

// readDerived reads the terms of derived fields and computes the fields, some at a
// time. at holds the positions of the fields among entries.
//
// Terms that two derived fields share, such as the sum at the end of one interval and
// the begin of the next, are read for each.
//
// Errors: as ReadInto; exit 65 for sums that decrease.
func (in *Input) readDerived(ctx context.Context, entries []ensemble.Entry, at []int, w ensemble.Window, into func(i int) ([]float32, error), done func(i int) error) error {
	for len(at) > 0 {
		n, points := 0, 0
		var terms []ensemble.Entry
		for n < len(at) && (n == 0 || points < derivePoints) {
			for _, t := range entries[at[n]].Derivation.Terms {
				terms = append(terms, t.Entry)
				points += t.Grid.SizeOf(w)
			}
			n++
		}
		values, err := in.readTerms(ctx, terms, w)
		if err != nil {
			return err
		}
		first := 0
		for _, i := range at[:n] {
			d := entries[i].Derivation
			out, err := into(i)
			if err != nil {
				return err
			}
			if err := derive(out, d, values[first:first+len(d.Terms)]); err != nil {
				return err
			}
			if err := done(i); err != nil {
				return err
			}
			first += len(d.Terms)
		}
		for _, x := range values {
			in.Recycle(x)
		}
		at = at[n:]
	}
	return nil
}

// readIntoWithDerived is ReadInto for entries some of which are derived. The plain ones
// are read first, so done is not called in the order of entries.
func (in *Input) readIntoWithDerived(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, into func(i int) ([]float32, error), done func(i int) error) error {
	var plain []ensemble.Entry
	var at, derived []int
	for i, e := range entries {
		if isDerived(e) {
			derived = append(derived, i)
		} else {
			plain, at = append(plain, e), append(at, i)
		}
	}
	if err := in.ReadInto(ctx, plain, w, func(i int) ([]float32, error) { return into(at[i]) }, func(i int) error { return done(at[i]) }); err != nil {
		return err
	}
	return in.readDerived(ctx, entries, derived, w, into, done)
}

// readWithDerived is ReadWindow for entries some of which are derived: runs of derived
// fields and runs of others, in order. visit owns the values, as in ReadWindow: each
// field has a buffer of its own.
func (in *Input) readWithDerived(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, visit func(i int, f *ensemble.Field) error) error {
	parts := map[*ensemble.Grid]*ensemble.Grid{}
	for first := 0; first < len(entries); {
		end := first + 1
		for end < len(entries) && isDerived(entries[end]) == isDerived(entries[first]) {
			end++
		}
		run, from := entries[first:end], first
		first = end
		if !isDerived(run[0]) {
			if err := in.ReadWindow(ctx, run, w, func(i int, f *ensemble.Field) error { return visit(from+i, f) }); err != nil {
				return err
			}
			continue
		}
		at := make([]int, len(run))
		for i := range at {
			at[i] = i
		}
		var values []float32
		into := func(i int) ([]float32, error) {
			values = in.buffer(run[i].Grid.SizeOf(w))
			return values, nil
		}
		if err := in.readDerived(ctx, run, at, w, into, func(i int) error {
			e := run[i]
			if parts[e.Grid] == nil {
				parts[e.Grid] = e.Grid.Subgrid(w)
			}
			return visit(from+i, &ensemble.Field{Key: e.Key, Unit: e.Unit, Grid: parts[e.Grid], Values: values})
		}); err != nil {
			return err
		}
	}
	return nil
}

// readTerms reads fields in the order of their files. The results have the order of
// terms. Sorting makes long batches, since plan begins a new batch at each change of
// file.
func (in *Input) readTerms(ctx context.Context, terms []ensemble.Entry, w ensemble.Window) ([][]float32, error) {
	order := make([]int, len(terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(terms[a].File, terms[b].File), comparePositions(terms[a], terms[b]))
	})
	sorted := make([]ensemble.Entry, len(terms))
	values := make([][]float32, len(terms))
	for i, k := range order {
		sorted[i] = terms[k]
		values[k] = make([]float32, terms[k].Grid.SizeOf(w))
	}
	err := in.ReadInto(ctx, sorted, w, func(i int) ([]float32, error) { return values[order[i]], nil }, func(int) error { return nil })
	return values, err
}

// packingShare is the largest decrease of a sum that packing can cause, as a share
// of the largest value of both fields: one step of eight bits each.
const packingShare = 2.0 / 255

// derive computes a field from its terms. For the statistics maximum and minimum the
// field is that of its terms at each point (CF cell methods maximum and minimum; GRIB code table 4.10:
// 2 and 3), else
//
//	out[p] = Σ wᵢ·termᵢ[p]
//
// with the weights of the derivation, such as 1 and −1 for the difference of two
// accumulations, summed in float64: the difference of two nearly equal float32 sums would lose digits.
//
// A negative difference within the rounding of packing becomes 0; the rounding is
// relative to the largest value of both sums, because GRIB packs a whole field with one
// step (WMO-No. 306, template 5.0).
//
// Missing: NaN in a term gives NaN.
// Source: CF conventions 1.8, section 7.3 and appendix E (cell methods sum, mean, maximum, minimum).
// Errors: exit 65 for a difference of sums that is negative where it cannot be.
func derive(out []float32, d *ensemble.Derivation, terms [][]float32) error {
	for _, x := range terms {
		if len(x) != len(out) {
			return fmt.Errorf("%s: grids of %d and %d points", d, len(out), len(x))
		}
	}
	for p := range out {
		switch d.Statistic {
		case "maximum", "minimum":
			best := terms[0][p]
			for _, x := range terms[1:] { // max and min return NaN if one of the values is
				if d.Statistic == "maximum" {
					best = max(best, x[p])
				} else {
					best = min(best, x[p])
				}
			}
			out[p] = best
		default:
			sum := 0.0
			for i, t := range d.Terms {
				sum += t.Weight * float64(terms[i][p])
			}
			out[p] = float32(sum)
		}
	}
	if !d.NeverNegative {
		return nil
	}
	largest := 0.0
	for _, x := range terms {
		for _, v := range x {
			if v == v { // not NaN
				largest = math.Max(largest, float64(v))
			}
		}
	}
	for p, v := range out {
		if v >= 0 || v != v {
			continue
		}
		if float64(v) < -packingShare*largest {
			return decreasingError(d, p, float64(v))
		}
		out[p] = 0
	}
	return nil
}

// decreasingError returns the error for an accumulation that decreases with the lead. It
// names the last term. point counts from 0 in the window that was read. The usual causes are sums
// that the model resets at intermediate times, and intervals without cell bounds.
func decreasingError(d *ensemble.Derivation, point int, by float64) error {
	last := d.Terms[len(d.Terms)-1]
	return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("%s decreases with the lead", last.Variable),
		At:  fmt.Sprintf("%s, message %d (%s), point %d", last.File, last.Message, last.Key, point),
		Why: fmt.Sprintf("%s is %.4g %s there: the accumulation was reset, or its intervals are not those that the file states", d, by, last.Unit),
		Fix: "correct the intervals in the file, or use them as they are: data.intervals: as_is"}
}
