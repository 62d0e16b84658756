package optimum

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// The seeds of a variant are one row, in core hours.
func TestCosts(t *testing.T) {
	r := &Result{}
	r.AddCost("a", 30, 1800, 2)
	r.AddCost("b", 7, 360, 2)
	r.AddCost("a", 40, 900, 2)
	if got, want := fmt.Sprint(r.Costs), "[{a 2 40 1.5} {b 1 7 0.2}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var text strings.Builder
	if err := (answer.Sections{r.cost()}).WriteText(&text); err != nil || !strings.Contains(text.String(), "1.5") {
		t.Errorf("%s %v", text.String(), err)
	}
}
