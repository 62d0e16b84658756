package loader_test

import (
	"context"
	"fmt"
	"io"

	"github.com/ensemble-weather/ensemble/io/loader"
)

// Reads the samples of one reader for one epoch, in the order of the schedule.
func ExampleLoader_Stream() {
	l := loader.NewInMemory([]string{"a", "b", "c", "d"}, 1, loader.Count{})
	defer l.Close()
	s := loader.Schedule{Seed: 7, Samples: 4, Epochs: 1, Batch: 2, Readers: 1}
	stream := l.Stream(context.Background(), s.Reads(0))
	defer stream.Close()
	for {
		x, err := stream.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(x, " ")
	}
	fmt.Println()
	// Output: d a c b
}

// Two readers with a memory cache of two samples each cache four samples together.
func ExampleSchedule_Place() {
	s := loader.Schedule{Seed: 7, Samples: 4, Epochs: 2, Batch: 2, Readers: 2}
	for reader := range s.Readers {
		fmt.Println(s.Epoch(reader, 0), s.Place(reader, loader.UniformSizes(4, 1), []int64{2}))
	}
	// Output:
	// [3 2] [-1 -1 0 0]
	// [0 1] [0 0 -1 -1]
}

// Predicts the time of a training with and without caches.
func ExampleSimulate() {
	system := &loader.System{
		FileSystem: loader.ConstantRate(100e6), Network: 1e9,
		Staging: loader.Cache{Capacity: 8e6, Threads: 2, Read: loader.ConstantRate(10e9), Write: loader.ConstantRate(10e9)},
		Caches:  []loader.Cache{{Capacity: 64e6, Threads: 1, Read: loader.ConstantRate(5e9), Write: loader.ConstantRate(5e9)}},
		Decode:  1e9, Compute: 400e6,
	}
	s := loader.Schedule{Seed: 1, Samples: 32, Epochs: 3, Batch: 4, Readers: 1}
	for _, policy := range []loader.Policy{loader.Plain, loader.Clairvoyant, loader.InMemory} {
		r := loader.Simulate(system, s, loader.UniformSizes(32, 1e6), policy)
		fmt.Printf("%-11s %.2f s, waiting %.2f s\n", policy, r.Total, r.Stall)
	}
	// Output:
	// plain       1.30 s, waiting 1.06 s
	// clairvoyant 0.34 s, waiting 0.10 s
	// in memory   0.24 s, waiting 0.00 s
}
