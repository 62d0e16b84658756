package optimum

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
)

// The seeds of a variant are one row, in core hours.
func TestCosts(t *testing.T) {
	r := &record.Record{Runs: []record.Run{{Variant: "a", Seed: 1, Steps: 30, Seconds: 1800}, {Variant: "a", Seed: 2, Steps: 40, Seconds: 900}, {Variant: "b", Seed: 1, Steps: 7, Seconds: 360}}}
	r.Machine.Threads = 2
	if got, want := fmt.Sprint(CostsOf(r)), "[{a 2 40 1.5} {b 1 7 0.2}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var text strings.Builder
	if err := (answer.Sections{(&Result{Costs: CostsOf(r)}).cost()}).WriteText(&text); err != nil || !strings.Contains(text.String(), "1.5") {
		t.Errorf("%s %v", text.String(), err)
	}
}
