package read_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/read"
)

// Measure how fast a file is opened and read.
func ExampleRun() {
	r, err := read.Run(context.Background(), read.Options{Files: []string{"fc.grib2"}, Rounds: 7})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Files[0].Fields, "fields", r.Files[0].Read.Median, "ms")
}
