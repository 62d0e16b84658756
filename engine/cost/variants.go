package cost

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/tune"
)

// VariantRace is a variant of a kernel with its times, as timing tables have them.
type VariantRace struct {
	Key string // of the kernel in timing tables
	tune.Work
	Times []float64 // seconds of processor time, by setup; 0: not timed
}

// Tuning is a network with the variants that are timed before its first run.
type Tuning struct {
	Network  string // and size
	Variants []int  // index in Races.Variants, ascending
}

// AddTuning adds the times of kernels that a network has on a setup. Of known times the least remain, but none of variants whose work is
// another by now. work returns the work of the variants of
// a kernel, in the order in which they are listed for a race; kernels that have none are left out.
//
// Errors: that of work.
func (r *Races) AddTuning(s Setup, network string, kernels iter.Seq2[string, tune.Entry], work func(key string) ([]tune.Work, error)) error {
	k := r.setup(s)
	at := slices.IndexFunc(r.Tunings, func(t Tuning) bool { return t.Network == network })
	if at < 0 {
		at = len(r.Tunings)
		r.Tunings = append(r.Tunings, Tuning{Network: network})
	}
	of := &r.Tunings[at]
	for key, e := range kernels {
		works, err := work(key)
		if err != nil {
			return err
		}
		r.forget(key, works)
		for _, w := range works {
			c := slices.IndexFunc(e.Candidates, func(c tune.Timing) bool { return c.Name == w.Name })
			if c < 0 {
				continue
			}
			i := r.variant(key, w)
			r.Variants[i].Times[k] = least(r.Variants[i].Times[k], e.Candidates[c].CPU.Seconds())
			if place, found := slices.BinarySearch(of.Variants, i); !found {
				of.Variants = slices.Insert(of.Variants, place, i)
			}
		}
	}
	return nil
}

// forget removes the times of variants that a kernel had when it was computed in another way.
func (r *Races) forget(key string, now []tune.Work) {
	for _, v := range r.Variants {
		if v.Key == key && !slices.Contains(now, v.Work) {
			clear(v.Times)
		}
	}
}

// variant returns the place of a variant, which is added if it is unknown.
func (r *Races) variant(key string, w tune.Work) int {
	if i := slices.IndexFunc(r.Variants, func(v VariantRace) bool { return v.Key == key && v.Work == w }); i >= 0 {
		return i
	}
	r.Variants = append(r.Variants, VariantRace{key, w, make([]float64, len(r.Setups))})
	return len(r.Variants) - 1
}

// parseVariants decodes variants and tunings of a file.
func (r *Races) parseVariants(f racesFile) error {
	for i, row := range f.Variants {
		var v VariantRace
		if err := parseRow(row, &v.Key, &v.Work, &v.Times); err != nil || len(v.Times) != len(r.Setups) || v.Work.Items < 1 || v.Work.Block < 1 {
			return fmt.Errorf("cost: variant %d: %s: %v", i, row, err)
		}
		scale(v.Times, 1e-6)
		r.Variants = append(r.Variants, v)
	}
	for i, row := range f.Tunings {
		var t Tuning
		if err := parseRow(row, &t.Network, &t.Variants); err != nil || slices.ContainsFunc(t.Variants, func(k int) bool { return k < 0 || k >= len(r.Variants) }) {
			return fmt.Errorf("cost: tuning %d: %s: %v", i, row, err)
		}
		r.Tunings = append(r.Tunings, t)
	}
	return nil
}

// variantError and kindError are tune.Expectations.Error and KindError. Smaller ones save more races and cost more regret: TestLongTuning prints
// both. The first is chosen so that half of the variants are not timed. The second exceeds the errors of processors that the fit has not seen: on
// an EPYC with 512 KiB of second cache variants of two kinds differ by up to 1.4 times what was expected.
const (
	variantError = 0.025
	kindError    = 0.6
)

// variantSample is a sample with its kernel on its setup, and the kind of the variant.
type variantSample struct {
	sample
	kernel, kind string
}

// FitVariants returns expected times of variants from those with a key for which use is true, but without Error. Only ratios of times of one
// kernel count. So each kernel k on each setup has a scale s of its own, and the coefficients minimise the sum of Fit over times in units of the
// least time of their kernel, with features s·x. Coefficients and scales are estimated in turns:
//
//	s_k = geometric mean of t/(c·x) over the variants of k
//
// Errors: a fit that does not converge.
func FitVariants(r *Races, use func(key string) bool) (*tune.Expectations, error) {
	best := map[string]float64{} // by kernel and setup
	by := map[string][]variantSample{}
	for _, v := range r.Variants {
		for k, t := range v.Times {
			if t == 0 || !use(v.Key) {
				continue
			}
			m, kernel := r.Setups[k].Machine, fmt.Sprint(k, v.Key)
			x := v.Work.Features(m.ISA, float64(m.L2))
			best[kernel] = least(best[kernel], t)
			isa := tune.VectorISA(m.ISA)
			by[isa] = append(by[isa], variantSample{sample{x[:], 1e9 * t}, kernel, v.Work.Kind})
		}
	}
	e := &tune.Expectations{Kinds: map[string]map[string][tune.WorkFeatures]float64{}}
	for isa, samples := range by {
		for i, s := range samples {
			unit := 1e9 * best[s.kernel]
			scale(s.x, 1/unit)
			samples[i].t /= unit
		}
		kinds, err := fitRatios(samples)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", isa, err)
		}
		e.Kinds[isa] = map[string][tune.WorkFeatures]float64{}
		for kind, c := range kinds {
			e.Kinds[isa][kind] = [tune.WorkFeatures]float64(c)
		}
	}
	return e, nil
}

// turns is the number of times that coefficients and scales are estimated.
const turns = 40

// fitRatios returns the coefficients of each kind.
func fitRatios(samples []variantSample) (kinds map[string][]float64, err error) {
	kinds = map[string][]float64{}
	scales := map[string]float64{} // by kernel
	for range turns {
		by := map[string][]sample{}
		for _, s := range samples {
			x := slices.Clone(s.x)
			scale(x, cmp.Or(scales[s.kernel], 1))
			by[s.kind] = append(by[s.kind], sample{x, s.t})
		}
		for kind, some := range by {
			c := kinds[kind]
			if c == nil {
				c = make([]float64, len(some[0].x))
			}
			if kinds[kind], err = improve(c, some, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
		}
		logs, counts := map[string]float64{}, map[string]float64{}
		for _, s := range samples {
			logs[s.kernel] += math.Log(s.t / dot(kinds[s.kind], s.x))
			counts[s.kernel]++
		}
		for kernel, sum := range logs {
			scales[kernel] = math.Exp(sum / counts[kernel])
		}
	}
	return kinds, nil
}
