package explain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// Compile a network for a field of 64×128 points, and print what its plan needs.
func ExampleRun() {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := explain.Run(context.Background(), explain.Options{Config: c, Crop: setup.Crop{Height: 64, Width: 128},
		Peaks: engine.Peaks{FLOPs: 1e11, Bytes: 1e10}, HTML: "plan.html"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Network, len(r.PassReports), "stages")
}

// The first pass of the compiler.
func ExamplePasses() {
	p := explain.Passes()[0]
	fmt.Println(p.Name, p.Absence)
	// Output: check-shapes required
}
