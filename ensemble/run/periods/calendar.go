package periods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// By is a length of periods of the calendar; "" for none.
type By string

// The periods of the calendar: a year, three months from March, June, September or December on, a month.
const (
	Year   By = "year"
	Season By = "season"
	Month  By = "month"
)

// ParseBy parses year, season or month; "" is none.
//
// Errors: exit 64.
func ParseBy(text string) (By, error) {
	if b := By(text); slices.Contains([]By{"", Year, Season, Month}, b) {
		return b, nil
	}
	return "", &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is not a period", text), At: "--by " + text, Why: fmt.Sprintf("want %s, %s or %s", Year, Season, Month), Fix: "write it as in --by year"}
}

// begin is the begin of the period of a time, UTC.
func (b By) begin(t time.Time) time.Time {
	month := t.Month()
	switch b {
	case Year:
		month = time.January
	case Season:
		month -= month % 3 // 0: December of the year before
	}
	return time.Date(t.Year(), month, 1, 0, 0, 0, 0, time.UTC)
}

// Split groups the scores of a verification by the period of their initialisation.
//
// Errors: for initialisations that are no times.
func (b By) Split(dates []score.DateScore) (groups []Group, err error) {
	for _, d := range dates {
		init, err := time.Parse(time.RFC3339, d.Init)
		if err != nil {
			return nil, err
		}
		origin := b.begin(init.UTC()).Format(time.DateOnly)
		at, known := slices.BinarySearchFunc(groups, origin, func(g Group, o string) int { return strings.Compare(g.Origin, o) })
		if !known {
			groups = slices.Insert(groups, at, Group{origin, [][]score.DateScore{nil}})
		}
		groups[at].Seeds[0] = append(groups[at].Seeds[0], d)
	}
	return groups, nil
}
