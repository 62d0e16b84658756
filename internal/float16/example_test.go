package float16_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/float16"
)

func ExampleRound() {
	fmt.Println(float16.Round(1.0/3), float16.Round(2049), float16.Round(70000))
	fmt.Printf("%#04x %g\n", float16.ToBits(1.5), float16.FromBits(0x3e00))
	// Output:
	// 0.333251953125 2048 +Inf
	// 0x3e00 1.5
}
