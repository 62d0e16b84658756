package ensemble

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Period is a range of init times, both ends included.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Contains reports whether t lies in the period.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.From) && !t.After(p.To) }

// Split divides inits into those for training, for model selection (validation) and for testing.
// The date of the init decides, not the name of an axis or a file: a reforecast of 2003 run in
// 2018 belongs to 2003.
type Split struct {
	Train, Validation, Test []Init
}

// NewSplit assigns inits to periods. An init outside all periods is left out.
//
// Errors: exit 64 for overlapping periods, and without training inits.
func NewSplit(inits []Init, train, validation, test Period) (Split, error) {
	var s Split
	for _, in := range inits {
		var hit []string
		for _, p := range []struct {
			name string
			in   Period
			to   *[]Init
		}{{"train", train, &s.Train}, {"validation", validation, &s.Validation}, {"test", test, &s.Test}} {
			if p.in.Contains(in.Time) {
				hit = append(hit, p.name)
				*p.to = append(*p.to, in)
			}
		}
		if len(hit) > 1 {
			return s, &exit.Error{Code: exit.Usage, What: "split periods overlap",
				At: fmt.Sprintf("init %s is in %s", in, strings.Join(hit, " and ")), Fix: proposedSplit(inits, 0, "make the periods of data.split disjoint")}
		}
	}
	for _, list := range [][]Init{s.Train, s.Validation, s.Test} {
		slices.SortFunc(list, func(a, b Init) int { return a.Compare(b.Time) })
	}
	if len(s.Train) == 0 {
		return s, &exit.Error{Code: exit.Usage, What: "no init lies in the training period",
			At:  fmt.Sprintf("%s to %s, %d inits in the input", train.From.Format(time.DateOnly), train.To.Format(time.DateOnly), len(inits)),
			Fix: proposedSplit(inits, 0, "correct data.split.train, or add the files of that period")}
	}
	return s, nil
}

// proposedSplit is the fix of a split: the line of a configuration that divides initialisations into 70, 15 and 15 % with
// gaps longer than gap; otherwise if they are too few.
func proposedSplit(inits []Init, gap Lead, otherwise string) string {
	sorted := slices.Clone(inits)
	slices.SortFunc(sorted, func(a, b Init) int { return a.Compare(b.Time) })
	sorted = slices.CompactFunc(sorted, func(a, b Init) bool { return a.Equal(b.Time) })
	n := len(sorted)
	var parts []string
	var end Init
	for _, p := range []struct {
		name     string
		from, to int
	}{{"train", 0, n * 70 / 100}, {"validation", n * 70 / 100, n * 85 / 100}, {"test", n * 85 / 100, n}} {
		own := slices.DeleteFunc(slices.Clone(sorted[p.from:p.to]), func(i Init) bool { return !end.IsZero() && i.Sub(end.Time) <= time.Duration(gap) })
		if len(own) == 0 {
			return otherwise
		}
		end = own[len(own)-1]
		parts = append(parts, fmt.Sprintf("%s: {from: %s, to: %s}", p.name, own[0].Format(time.RFC3339), end.Format(time.RFC3339)))
	}
	return otherwise + "; for example under `data:` write `split: {" + strings.Join(parts, ", ") + "}`"
}

// CheckLeaks returns an error if two parts share valid times of targets (data leakage), since the
// network would be tested on targets it was trained on. Parts that share valid times of inputs
// only (leads before the target) are allowed, with one warning per pair.
//
// Errors: exit 64 with the first shared valid time.
func (s Split) CheckLeaks(leads, targets []Lead) (warnings []string, err error) {
	parts := []struct {
		name string
		in   []Init
	}{{"train", s.Train}, {"validation", s.Validation}, {"test", s.Test}}
	for i, a := range parts {
		targetTimes := map[time.Time]string{}
		inputs := map[time.Time]bool{}
		for _, in := range a.in {
			for _, l := range targets {
				targetTimes[in.Valid(l).Time] = fmt.Sprintf("%s at lead %s", in, l)
			}
			for _, l := range leads {
				inputs[in.Valid(l).Time] = true
			}
		}
		for _, b := range parts[i+1:] {
			shared := 0
			for _, in := range b.in {
				for _, l := range targets {
					v := in.Valid(l)
					if other, ok := targetTimes[v.Time]; ok {
						return nil, &exit.Error{Code: exit.Usage,
							What: fmt.Sprintf("%s and %s share the target valid time %s", a.name, b.name, v),
							At:   fmt.Sprintf("inits %s and %s at lead %s", other, in, l),
							Why:  "scores on dates whose targets were used in training are meaningless",
							Fix: proposedSplit(slices.Concat(s.Train, s.Validation, s.Test), slices.Max(targets)-slices.Min(targets),
								"leave a gap between the periods of data.split, as long as the difference of the target leads")}
					}
				}
				for _, l := range leads {
					if inputs[in.Valid(l).Time] {
						shared++
						break
					}
				}
			}
			if shared > 0 {
				warnings = append(warnings, fmt.Sprintf("%d inits of %s share valid times of inputs with %s", shared, b.name, a.name))
			}
		}
	}
	return warnings, nil
}

// CheckFitted returns an error if a statistic was fitted on dates that are valid times of test
// targets.
//
// Errors: exit 64 with the statistic and the first such date.
func (s Split) CheckFitted(statistic string, fitted []Valid, targets []Lead) error {
	test := map[time.Time]bool{}
	for _, in := range s.Test {
		for _, l := range targets {
			test[in.Valid(l).Time] = true
		}
	}
	for _, v := range fitted {
		if test[v.Time] {
			return &exit.Error{Code: exit.Usage, What: statistic + " was fitted on a test target",
				At: "valid time " + v.String(), Why: "the test data must not be used for fitting",
				Fix: "fit statistics on the training inits only"}
		}
	}
	return nil
}
