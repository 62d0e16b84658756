package bench_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// FLOPs of a forward pass of the published U-Net on 128×128 points.
func ExampleCase_FLOPs() {
	c := bench.Case{Model: bench.BenchUNet3D, Base: 32, Crop: setup.Crop{Height: 128, Width: 128}, Batch: 1, Depth: 2, Precision: "float32"}
	flops, err := c.FLOPs()
	fmt.Printf("%.1f GFLOP %v\n", float64(flops)/1e9, err)
	// Output: 72.2 GFLOP <nil>
}

// Measure a training step and a prediction. Each measurement runs in a process that Program starts.
func ExampleRun() {
	c := bench.Case{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 1, Threads: 4}
	r, err := bench.Run(context.Background(), bench.Options{Cases: []bench.Case{c}, Gradient: "off", Program: []string{"ensemble", "bench", "--single"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f ms per training step\n", r.Results[0].TrainMedian)
}

// Compare training on four ranks of this process with training on one.
func ExampleCheckParallel() {
	c := bench.Case{Model: bench.BenchUNet3D, Base: 4, Crop: setup.Crop{Height: 32, Width: 64}, Batch: 2, Depth: 2}
	r, err := bench.CheckParallel(context.Background(), bench.ParallelCheckOptions{Case: c, Ranks: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.SameBits, r.MaxRelError)
}

// Measure a training step on four ranks.
func ExampleRunOnRanks() {
	c := bench.Case{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 128}, Batch: 4, Threads: 1}
	r, err := bench.RunOnRanks(context.Background(), bench.RanksOptions{Case: c, Ranks: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Mesh, r.TrainMedian, "ms")
}
