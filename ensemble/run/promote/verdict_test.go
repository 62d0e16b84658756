package promote

import (
	"fmt"
	"testing"
)

// A verdict that is missing has a text, called directly too.
func TestNoVerdict(t *testing.T) {
	var none *Verdict
	if got := none.String(); got != "no verdict" || fmt.Sprintf("%v", Promotion{Verdict: none}) == "" {
		t.Errorf("text %q", got)
	}
	v := &Verdict{Verdict: VerdictBetter, Inits: 20, CRPSS: 0.1, CILow: 0.05, CIHigh: 0.15}
	if got := v.String(); got != "verdict on 20 initialisations: better; CRPSS +10.0 % [+5.0, +15.0]" {
		t.Errorf("text %q", got)
	}
}
