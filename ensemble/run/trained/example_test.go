package trained_test

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A run that does not exist is an error with exit code 66.
func ExampleReadFinished() {
	_, err := trained.ReadFinished("runs/none")
	var e *exit.Error
	if errors.As(err, &e) {
		fmt.Println(int(e.Code), e.What+":", e.At)
	}
	// Output: 66 no such run directory: runs/none
}
