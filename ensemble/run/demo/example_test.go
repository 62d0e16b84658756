package demo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/demo"
)

// Run the whole workflow on synthetic data, in a few minutes.
func ExampleRun() {
	r, err := demo.Run(context.Background(), demo.Options{Root: "runs"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("open", r.Report)
}
