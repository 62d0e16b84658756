package score

import (
	"fmt"
	"io"
	"slices"
	"strings"
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
	N            int     `json:"n"`  // dates
	Of           string  `json:"of"` // whose dates: of the test of the training, or of these products
}

// Whose dates a test of coupling is of.
const (
	OfTraining = "training"
	OfProducts = "products"
)

// Word answers whether the members are independent, as far as the test sees: "yes", "no" or, of too few
// dates, "undecided".
func (c Coupling) Word() string {
	switch {
	case !c.Decided:
		return "undecided"
	case c.Passed:
		return "yes"
	}
	return "no"
}

// dependent are the systems of which a test says no, in the order of the tests.
func (r *Result) dependent() (systems []string) {
	for _, c := range r.Coupling {
		if c.Decided && !c.Passed && !slices.Contains(systems, c.System) {
			systems = append(systems, c.System)
		}
	}
	return systems
}

// printCoupling writes the tests as rows of a table for people.
func (r *Result) printCoupling(w io.Writer, confidence string) {
	if len(r.Coupling) > 0 {
		fmt.Fprintf(w, "\ntest of members\tsystem\tdates\ttarget\tvalue\t%s low\thigh\tif independent\tindependent\t\n", confidence)
	}
	for _, c := range r.Coupling {
		name := c.Test
		if c.InputMembers > 0 {
			name += fmt.Sprint(" ", c.InputMembers)
		}
		fmt.Fprintf(w, "%s\t%s\t%d (%s)\t%s\t%s\t%s\t%s\t%g\t%s\t\n", name, c.System, c.N, c.Of, target(c.Variable, c.Level, c.Lead, Everywhere, AllYear),
			digits(c.Value), digits(c.CILow), digits(c.CIHigh), float64(c.Expected), c.Word())
	}
}

// explainCoupling says what it means that members are not independent, and what to do.
func (r *Result) explainCoupling(w io.Writer) error {
	systems := r.dependent()
	if len(systems) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "  %s: no independent draws. The members know of each other, as after most post-processing, or their\n"+
		"  spread does not fit their errors. This is no fault of the forecast, but a rule for its scores: compare these\n"+
		"  members with others by %s, as %s can reward them for too much spread (docs/scores.md).\n", strings.Join(systems, ", "), CRPSPlain.ID, CRPSFair.ID)
	return err
}
