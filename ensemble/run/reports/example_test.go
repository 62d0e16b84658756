package reports_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Write the report of a run directory.
func ExampleWrite() {
	page, err := reports.Write(reports.Options{Dir: "runs/gcm"})
	var e *exit.Error
	if errors.As(err, &e) && e.Code == exit.NotYet {
		fmt.Println("nothing to report yet")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page)
}
