package nearest_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/nearest"
)

func ExampleFind() {
	keys := []string{"epochs", "batch_size", "learning_rate"}
	fmt.Printf("%q %q\n", nearest.Find("batchsize", keys), nearest.Find("members", keys))
	// Output: "batch_size" ""
}

func ExampleDivisor() {
	fmt.Println(nearest.Divisor(8, 3), nearest.Divisor(12, 9), nearest.Divisor(7, 5))
	// Output: 2 6 7
}
