package verify

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// published are the probabilities of exceedance and the quantiles among the products of a target.
type published struct {
	scoring.Published
	fields map[ensemble.Init][]publishedField // of Thresholds, then of Levels
}

// publishedField is a probability or a quantile of one initialisation.
type publishedField struct {
	ensemble.Entry
	complement bool // the event is that the value is below the threshold
}

// selectPublished finds the published probabilities and quantiles of all targets, and names those that cannot
// be scored.
func (v *Verification) selectPublished(all []ensemble.Entry) {
	for _, t := range v.Targets {
		found := map[score.Number]map[ensemble.Init]publishedField{} // by threshold
		quantiles := map[float64]map[ensemble.Init]publishedField{}  // by probability
		unscored := map[string]bool{}
		for _, e := range all {
			if e.Variable != t.Key.Variable || e.Lead != t.Key.Lead || !sameLevel(e.Level, t.Key.Level) || t.products[e.Init] == nil || !e.Grid.SameAs(v.Grid, input.GridTolerance) {
				continue
			}
			switch {
			case e.Product == ensemble.Quantile && e.QuantileProbability > 0 && e.QuantileProbability < 1:
				put(t, quantiles, e.QuantileProbability, publishedField{e, false})
			case e.Product == ensemble.Quantile:
				unscored[fmt.Sprintf("the quantile %g", e.QuantileProbability)] = true
			case e.Product == ensemble.Probability && exceedance(e):
				x, complement, _ := e.Event.Exceedance()
				put(t, found, score.Number(x), publishedField{e, complement})
				if e.Event.Relation == ensemble.AtLeast {
					v.warn(fmt.Sprintf("%s at %s: the probability %s is scored at the threshold %g, so that %g counts", t.Key.Variable, t.Key.Level, e.Event, x, e.Event.Lower))
				}
			case e.Product == ensemble.Probability:
				unscored["the probability "+e.Event.String()] = true
			}
		}
		t.published.fields = map[ensemble.Init][]publishedField{}
		for _, x := range slices.Sorted(maps.Keys(found)) {
			if complete(t, found[x]) {
				t.published.Thresholds = append(t.published.Thresholds, float64(x))
			} else {
				unscored[fmt.Sprintf("the probability above or below %g, at %d of %d initialisations", float64(x), len(found[x]), len(t.Inits))] = true
			}
		}
		for _, p := range slices.Sorted(maps.Keys(quantiles)) {
			if complete(t, quantiles[p]) {
				t.published.Levels = append(t.published.Levels, p)
			} else {
				unscored[fmt.Sprintf("the quantile %g, at %d of %d initialisations", p, len(quantiles[p]), len(t.Inits))] = true
			}
		}
		if len(unscored) > 0 {
			v.warn(fmt.Sprintf("%s at %s: published and not scored: %s", t.Key.Variable, t.Key.Level, strings.Join(slices.Sorted(maps.Keys(unscored)), "; ")))
		}
	}
	n := 0
	for _, u := range v.products.Catalogue().Unused {
		if strings.Contains(u.Reason, "neighbourhood") {
			n++
		}
	}
	if n > 0 {
		v.warn(humanise.Count(n, "field") + " of neighbourhood probabilities: published and not scored")
	}
}

// exceedance reports whether the probability of an event gives that of values above its threshold. The
// probability of values below 0 does not, for a variable that is often exactly 0.
func exceedance(e ensemble.Entry) bool {
	v, _ := ensemble.VariableNamed(e.Variable)
	bounded, known := v.NonNegative()
	_, _, ok := e.Event.Exceedance()
	return ok && (e.Event.Relation != ensemble.Below || known && !bounded || e.Event.Upper != 0)
}

// put adds a field at a threshold or probability; of two the one of exceedance is used, or that
// of values up to the threshold instead of values below it.
func put[K comparable](t *VerifiedTarget, to map[K]map[ensemble.Init]publishedField, k K, f publishedField) {
	if to[k] == nil {
		to[k] = map[ensemble.Init]publishedField{}
	}
	old, twice := to[k][f.Init]
	if twice && old.complement == f.complement && old.Event == f.Event {
		t.repeat(old.Entry, f.Entry)
	}
	if !twice || old.complement && (!f.complement || f.Event.Relation == ensemble.AtMost) {
		to[k][f.Init] = f
	}
}

// complete appends the fields of a threshold or probability to those that are scored, if all initialisations
// have one.
func complete(t *VerifiedTarget, of map[ensemble.Init]publishedField) bool {
	if len(of) != len(t.Inits) {
		return false
	}
	for init, f := range of {
		t.published.fields[init] = append(t.published.fields[init], f)
	}
	return true
}

// repeat records that a product occurs twice.
func (t *VerifiedTarget) repeat(first, again ensemble.Entry) {
	if t.repeats == nil {
		t.repeats = map[ensemble.Init][][2]ensemble.Entry{}
	}
	t.repeats[first.Init] = append(t.repeats[first.Init], [2]ensemble.Entry{first, again})
}

// compareRepeats compares products of some initialisations that occur twice.
//
// Errors: exit 65 for two that differ.
func (v *Verification) compareRepeats(ctx context.Context, t *VerifiedTarget, inits []ensemble.Init) error {
	for _, init := range inits {
		for _, p := range t.repeats[init] {
			var values [2][]float32
			if err := v.products.Read(ctx, p[:], func(i int, f *ensemble.Field) error { values[i] = f.Values; return nil }); err != nil {
				return err
			}
			if !p[0].Grid.SameAs(p[1].Grid, input.GridTolerance) || !equalPublished(values, p[0].Packing == p[1].Packing) {
				return input.ConflictFault(p[0], p[1]).AsError()
			}
		}
	}
	return nil
}

// equalPublished reports whether two fields are equal: exactly, or if one product was published in two
// formats, up to the rounding of packed values, at most a 250th of the range.
func equalPublished(values [2][]float32, exactly bool) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range values[0] {
		if x == x {
			low, high = min(low, float64(x)), max(high, float64(x))
		}
	}
	const packed = 1. / 250
	allowed := max(high-low, 0)*packed + 1e-6*max(math.Abs(low), math.Abs(high))
	return slices.EqualFunc(values[0], values[1], func(a, b float32) bool {
		if a != a || b != b || exactly {
			return a == b || a != a && b != b
		}
		return math.Abs(float64(a)-float64(b)) <= allowed
	})
}

// warn adds a warning once.
func (v *Verification) warn(texts ...string) {
	for _, text := range texts {
		if !slices.Contains(v.Warnings, text) {
			v.Warnings = append(v.Warnings, text)
		}
	}
}
