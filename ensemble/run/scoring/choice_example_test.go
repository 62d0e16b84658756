package scoring_test

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A misspelt score is found before any file is read.
func ExampleSelection_Check() {
	c := scoring.Selection{Scores: []string{"default", "crps_fare"}, Events: []string{"2t>273.15"}}
	var e *exit.Error
	if errors.As(c.Check(), &e) {
		fmt.Println(int(e.Code), e.What+":", e.At+":", e.Why)
	}
	// Output: 64 invalid selection of scores: --scores crps_fare: unknown score "crps_fare"
}
