package device_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/device"
)

// Measure a training step on a GPU.
func ExampleMeasure() {
	r, err := device.Measure(context.Background(), "train", device.Options{Backend: "cuda", Network: device.Network{Base: 32, Batch: 2}})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Sections().WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// The measurements in their order.
func ExampleParts() {
	for _, p := range device.Parts()[:3] {
		fmt.Println(p.Name)
	}
	// Output:
	// info
	// peak
	// train
}
