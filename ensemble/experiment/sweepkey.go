package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// SweepKey is a key of the configuration with the values that a sweep tries: a list, or a range.
type SweepKey struct {
	Key    string   `json:"key"`
	Values []string `json:"values,omitempty"`
	Low    float64  `json:"low,omitempty"` // of a range
	High   float64  `json:"high,omitempty"`
	Whole  bool     `json:"whole,omitempty"` // the range has whole numbers only
}

// isRange reports whether the key has a range instead of a list.
func (k *SweepKey) isRange() bool { return k.Values == nil }

// refusedKeys are keys that a sweep cannot change, by their beginning.
var refusedKeys = []struct{ prefix, why, fix string }{
	{"data.split.test", "test dates judge the winner; a sweep that sees them chooses what suits them", "leave the key out; --final tests the winner"},
	{"data.split", "all trials need the same validation dates", "set the dates in the configuration"},
	{"data.forecasts", "all trials need the same data", "run one sweep for each data set"},
	{"data.analyses", "all trials need the same data", "run one sweep for each data set"},
	{"data.store", "all trials need the same data", "run one sweep for each data set"},
	{"data.grid", "scores on different grids cannot be compared", "run one sweep for each grid"},
	{"data.target", "scores of different targets cannot be compared", "run one sweep for each set of targets"},
	{"train.threads", "threads change the time of a training, and bits", "set it for all trials, with --set"},
	{"train.seed", "the best of several seeds is luck", "give --seeds: scores are means over seeds"},
}

// wideRange is the ratio of the ends of a range from which values are drawn on a logarithmic scale.
const wideRange = 10

// ParseSweepKey parses KEY=VALUE,VALUE,… and KEY=LOW..HIGH. Commas within brackets do not separate values.
//
// Errors: exit 64, also for keys that a sweep must not change.
func ParseSweepKey(text string) (SweepKey, error) {
	key, values, ok := strings.Cut(text, "=")
	k := SweepKey{Key: key}
	bad := func(what, why, fix string) (SweepKey, error) {
		return k, &exit.Error{Code: exit.Usage, What: what, At: fmt.Sprintf("--key %q", text), Why: why, Fix: fix}
	}
	const form = "write KEY=VALUE,VALUE or KEY=LOW..HIGH, such as --key train.learning_rate=0.001..0.01"
	if !ok || key == "" || values == "" {
		return bad("invalid key of a sweep", "it has no values", form)
	}
	for _, r := range refusedKeys {
		if key == r.prefix || strings.HasPrefix(key, r.prefix) {
			return bad("a sweep cannot change "+key, r.why, r.fix)
		}
	}
	if low, high, isRange := strings.Cut(values, ".."); isRange {
		var err, also error
		k.Low, err = strconv.ParseFloat(low, 64)
		k.High, also = strconv.ParseFloat(high, 64)
		if err != nil || also != nil || !(k.Low < k.High) || math.IsInf(k.High-k.Low, 0) {
			return bad("invalid range "+values, "it needs two finite numbers, the smaller one first", form)
		}
		k.Whole = !strings.ContainsAny(low+high, ".eE")
		return k, nil
	}
	depth := 0
	k.Values = strings.FieldsFunc(strings.Map(func(r rune) rune {
		switch {
		case r == '[' || r == '{':
			depth++
		case r == ']' || r == '}':
			depth--
		case r == ',' && depth == 0:
			return '\x00'
		}
		return r
	}, values), func(r rune) bool { return r == '\x00' })
	for i, v := range k.Values {
		if slices.Contains(k.Values[:i], v) {
			return bad("value "+v+" is listed twice", "", "list each value once")
		}
	}
	return k, nil
}

// draw returns a random value: one of the list, or uniform in the range, on a logarithmic scale if it is wide.
// Numbers have three significant digits, so that they can be written into a configuration.
func (k *SweepKey) draw(r *rand.Rand) string {
	if !k.isRange() {
		return k.Values[r.IntN(len(k.Values))]
	}
	low, high := k.Low, k.High
	if k.Whole {
		low, high = low-0.5, high+0.5 // each number has the same share
	}
	v := low + (high-low)*r.Float64()
	if k.Low > 0 && k.High >= wideRange*k.Low {
		v = low * math.Pow(high/low, r.Float64())
	}
	if k.Whole {
		return strconv.FormatFloat(min(max(math.Round(v), k.Low), k.High), 'f', -1, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if short, _ := strconv.ParseFloat(text, 64); short < k.Low || short > k.High { // rounded out of the range
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return text
}

// maxTrials bounds the trials of a sweep.
const maxTrials = 10000

// Trials lists the overrides of each trial: all combinations of the values, or n > 0 random ones. The same
// seed gives the same trials, and more of them begin with those of fewer.
//
// Errors: exit 64 for no keys, a key twice, ranges without n, and too many trials.
func Trials(keys []SweepKey, n int, seed uint64) ([][]string, error) {
	bad := func(what, why, fix string) ([][]string, error) {
		return nil, &exit.Error{Code: exit.Usage, What: what, At: "--key", Why: why, Fix: fix}
	}
	all := 1 // combinations; maxTrials+1: more, or a range
	for i := range keys {
		k := &keys[i]
		switch {
		case slices.ContainsFunc(keys[:i], func(o SweepKey) bool { return o.Key == k.Key }):
			return bad("key "+k.Key+" is given twice", "", "list all its values once")
		case k.isRange() && n == 0:
			return bad("the range of "+k.Key+" has no number of trials", "its values are drawn at random", "add --trials N, or list values")
		case k.isRange():
			all = maxTrials + 1
		default:
			all = min(all*len(k.Values), maxTrials+1)
		}
	}
	switch {
	case len(keys) == 0:
		return bad("a sweep needs keys", "", "add --key KEY=VALUE,VALUE or --key KEY=LOW..HIGH")
	case n > maxTrials || n == 0 && all > maxTrials:
		return bad(fmt.Sprintf("more than %d trials", maxTrials), "", "list fewer values, or add --trials N for a random search")
	case n == 0 || all <= n:
		return combinations(keys), nil
	}
	var out [][]string
	seen := map[string]bool{}
	r := rand.New(rand.NewPCG(seed, 0x53eeb))
	for tries := 0; len(out) < n && tries < 100*n; tries++ { // a narrow range may have fewer values
		var set []string
		for i := range keys {
			set = append(set, keys[i].Key+"="+keys[i].draw(r))
		}
		if name := strings.Join(set, " "); !seen[name] {
			seen[name] = true
			out = append(out, set)
		}
	}
	return out, nil
}

// combinations lists all combinations of the values; the last key changes fastest.
func combinations(keys []SweepKey) [][]string {
	out := [][]string{nil}
	for _, k := range keys {
		var next [][]string
		for _, set := range out {
			for _, v := range k.Values {
				next = append(next, append(slices.Clone(set), k.Key+"="+v))
			}
		}
		out = next
	}
	return out
}
