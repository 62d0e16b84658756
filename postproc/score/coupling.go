package score

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// Coupling is what a test says of whether the members that a system makes know of each other; then
// they are no independent draws, and fair scores reward their spread (package postproc/coupling).
type Coupling struct {
	Test         string  `json:"test"`          // ID of coupling.Tests
	InputMembers int     `json:"input_members"` // of the smaller input of an input-size test; else 0
	Text         string  `json:"text"`          // what Value is, for people
	System       string  `json:"system"`
	Variable     string  `json:"variable"`
	Level        string  `json:"level"`
	Lead         string  `json:"lead"`
	LeadH        float64 `json:"lead_h"`
	Value        Number  `json:"value"`
	CILow        Number  `json:"ci_low"`
	CIHigh       Number  `json:"ci_high"`
	Expected     Number  `json:"expected"` // of members that do not know of each other, and are reliable
	Decided      bool    `json:"decided"`  // there is an interval: dates suffice
	Passed       bool    `json:"passed"`   // it holds Expected
	Members      int     `json:"members"`
	N            int     `json:"n"`          // dates
	DatesFrom    string  `json:"dates_from"` // whose dates: of the test of the training, or of these products
}

// Whose dates a test of coupling is of.
const (
	FromTraining = "training"
	FromProducts = "products"
)

// Verdict answers whether the members are independent, as far as the test sees: "yes", "no" or, of too few
// dates, "undecided".
func (c Coupling) Verdict() string {
	switch {
	case !c.Decided:
		return "undecided"
	case c.Passed:
		return "yes"
	}
	return "no"
}

// dependentSystems are the systems of which a test says no, in the order of the tests.
func (r *Result) dependentSystems() (systems []string) {
	for _, c := range r.Coupling {
		if c.Decided && !c.Passed && !slices.Contains(systems, c.System) {
			systems = append(systems, c.System)
		}
	}
	return systems
}

// couplingSection are the tests as a table for people; below it what it means that members are not independent, and what to do.
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
		s.Notes = []string{"  " + strings.Join(systems, ", ") + ": no independent draws. The members know of each other, as after most post-processing, or their",
			"  spread does not fit their errors. This is no fault of the forecast, but a rule for its scores: compare these",
			fmt.Sprintf("  members with others by %s, as %s can reward them for too much spread (docs/verification.md).", CRPSPlain.ID, CRPSFair.ID)}
	}
	return s
}
