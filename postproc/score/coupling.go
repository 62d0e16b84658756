package score

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// Coupling is the result of a test of whether the members of a system are independent.
// Dependent members are not draws of one distribution, and fair scores reward excessive
// spread of them (package postproc/coupling).
//
// Source: Roberts 2026, arXiv:2602.15830.
type Coupling struct {
	Test         string  `json:"test"`          // ID of coupling.Tests
	InputMembers int     `json:"input_members"` // of the smaller input of an input-size test; else 0
	Text         string  `json:"text"`          // meaning of Value, for display
	System       string  `json:"system"`
	Variable     string  `json:"variable"`
	Level        string  `json:"level"`
	Lead         string  `json:"lead"`
	LeadH        float64 `json:"lead_h"`
	Value        Number  `json:"value"`
	CILow        Number  `json:"ci_low"`
	CIHigh       Number  `json:"ci_high"`
	Expected     Number  `json:"expected"` // of independent, reliable members
	Decided      bool    `json:"decided"`  // there are enough dates for an interval
	Passed       bool    `json:"passed"`   // the interval contains Expected
	Members      int     `json:"members"`
	N            int     `json:"n"`          // dates
	DatesFrom    string  `json:"dates_from"` // origin of the dates: FromTraining or FromProducts
}

// The origin of the dates of a test: the training, or the verified products.
const (
	FromTraining = "training"
	FromProducts = "products"
)

// Verdict reports whether the members are independent according to the test: "yes", "no" or, with too few dates, "undecided".
func (c Coupling) Verdict() string {
	switch {
	case !c.Decided:
		return "undecided"
	case c.Passed:
		return "yes"
	}
	return "no"
}

// dependentSystems lists the systems that failed a test, in the order of the tests.
func (r *Result) dependentSystems() (systems []string) {
	for _, c := range r.Coupling {
		if c.Decided && !c.Passed && !slices.Contains(systems, c.System) {
			systems = append(systems, c.System)
		}
	}
	return systems
}

// couplingSection is the table of the tests, with a note on the scores of dependent members.
func (r *Result) couplingSection(low string) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("test of members", "system", "dates", "target"), answer.NumberColumns("", "value", low, "high"), answer.NumberColumns("%g", "if independent"),
		answer.TextColumns("independent"))}
	for _, c := range r.Coupling {
		name := c.Test
		if c.InputMembers > 0 {
			name += fmt.Sprint(" ", c.InputMembers)
		}
		s.Rows = append(s.Rows, []any{name, c.System, fmt.Sprintf("%d (%s)", c.N, c.DatesFrom), target(c.Variable, c.Level, c.Lead, Everywhere, AllYear),
			digits(c.Value), digits(c.CILow), digits(c.CIHigh), float64(c.Expected), c.Verdict()})
	}
	if systems := r.dependentSystems(); len(systems) > 0 {
		s.Notes = []string{"  " + strings.Join(systems, ", ") + ": the members are not independent draws, as after most post-processing, or their spread does not",
			"  match their error. This is not a fault of the forecast, but it restricts the choice of scores:",
			fmt.Sprintf("  compare these members with others by %s; %s can reward excessive spread (docs/verification.md).", CRPSPlain.ID, CRPSFair.ID)}
	}
	return s
}
