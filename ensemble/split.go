package ensemble

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Period is a span of init dates, both ends included.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Contains says whether t lies in the period.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.From) && !t.After(p.To) }

// Split says which starts a model learns from, is chosen by, and is judged on.
// Dates decide, never the name of an axis or a file: a reforecast of the year
// 2003 run in 2018 belongs to 2003.
type Split struct {
	Train, Validation, Test []Init
}

// NewSplit sorts the starts into periods. A start in none of them is left out.
//
// Errors: exit 64 if periods overlap or one that is asked for stays empty.
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
				At: fmt.Sprintf("start %s is in %s", in, strings.Join(hit, " and ")), Fix: "make the periods of data.split disjoint"}
		}
	}
	for _, list := range [][]Init{s.Train, s.Validation, s.Test} {
		slices.SortFunc(list, func(a, b Init) int { return a.Compare(b.Time) })
	}
	if len(s.Train) == 0 {
		return s, &exit.Error{Code: exit.Usage, What: "no start lies in the training period",
			At:  fmt.Sprintf("%s to %s, %d starts in the input", train.From.Format(time.DateOnly), train.To.Format(time.DateOnly), len(inits)),
			Fix: "correct data.split.train, or give the files of that period"}
	}
	return s, nil
}

// CheckLeaks refuses a split whose parts share target valid times: the network
// would be judged on fields it has seen as answers. Parts that share only
// fields of their inputs (valid times of leads before the target) are legal but
// named, one warning a pair.
//
// Errors: exit 64 naming the first shared valid time.
func (s Split) CheckLeaks(leads, targets []Lead) (warnings []string, err error) {
	parts := []struct {
		name string
		in   []Init
	}{{"train", s.Train}, {"validation", s.Validation}, {"test", s.Test}}
	for i, a := range parts {
		answers := map[time.Time]string{}
		inputs := map[time.Time]bool{}
		for _, in := range a.in {
			for _, l := range targets {
				answers[in.Valid(l).Time] = fmt.Sprintf("%s at lead %s", in, l)
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
					if other, ok := answers[v.Time]; ok {
						return nil, &exit.Error{Code: exit.Usage,
							What: fmt.Sprintf("%s and %s share the target valid time %s", a.name, b.name, v),
							At:   fmt.Sprintf("starts %s and %s at lead %s", other, in, l),
							Why:  "scores on dates whose answers were seen in training are worthless",
							Fix:  "leave a gap between the periods of data.split, as long as target leads lie apart"}
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
				warnings = append(warnings, fmt.Sprintf("%d starts of %s have input valid times in common with %s", shared, b.name, a.name))
			}
		}
	}
	return warnings, nil
}

// CheckFitted refuses a statistic that was fitted on dates whose target valid
// times belong to the test part.
//
// Errors: exit 64 naming the statistic and the first such date.
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
				At: "valid time " + v.String(), Why: "the test would judge what it helped to fit",
				Fix: "fit statistics on the training starts only"}
		}
	}
	return nil
}
