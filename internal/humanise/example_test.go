package humanise_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

func ExampleCount() {
	fmt.Println(humanise.Count(1, "rank"), "and", humanise.Count(2, "rank"))
	// Output: 1 rank and 2 ranks
}

func ExampleSeconds() {
	fmt.Println(humanise.Seconds(0.0123), humanise.Seconds(300), humanise.Seconds(9000))
	// Output: 0.0123 s 5 min 2.5 h
}
