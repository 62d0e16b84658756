package optim_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/optim"
)

// A cosine schedule with ten steps of linear warm-up.
func ExampleWarmup() {
	rate := optim.Warmup{Schedule: optim.Cosine{Max: 1e-3, Hold: 10, Total: 110}, Steps: 10}
	for _, step := range []uint64{0, 4, 9, 60, 110} {
		fmt.Printf("step %3d: %.2g\n", step, rate.Rate(step))
	}
	// Output:
	// step   0: 0.0001
	// step   4: 0.0005
	// step   9: 0.001
	// step  60: 0.0005
	// step 110: 0
}

// A scale of 2¹⁶ overflows once: the step is skipped and the scale halved.
func ExampleLossScale() {
	scale := optim.NewLossScale()
	scale.CountSkip()
	scale.CountStep()
	fmt.Println(scale.Scale, scale.GoodSteps, scale.Skipped)
	// Output:
	// 32768 1 1
}
