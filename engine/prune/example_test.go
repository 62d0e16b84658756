package prune_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/prune"
)

// Sparsity of gradual pruning to 90 % between steps 100 and 600.
func ExampleCubic() {
	for _, step := range []int{0, 100, 200, 350, 600} {
		fmt.Printf("step %d: %.3f\n", step, prune.Cubic(step, 100, 600, 0, 0.9))
	}
	// Output:
	// step 0: 0.000
	// step 100: 0.000
	// step 200: 0.439
	// step 350: 0.787
	// step 600: 0.900
}

// Size of a filter of 64×64×3×3×3 weights of which 10 % are nonzero.
func ExampleFormat_Bytes() {
	for _, f := range prune.Formats {
		fmt.Printf("%s %d kB\n", f, f.Bytes(64, 64*27, 64*64*27/10)/1000)
	}
	// Output:
	// dense 442 kB
	// csr32 88 kB
	// csr16 66 kB
	// bitmap 58 kB
}
