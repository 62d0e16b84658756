package share_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/share"
)

// A budget of 1000 parameters: 100 belong to layers without sharing, and the rest is divided in
// proportion to the sizes of two groups of layers.
func ExampleSplitBudget() {
	sizes, err := share.SplitBudget(1000, 100, []int{2000, 1000})
	fmt.Println(sizes, err)

	_, err = share.SplitBudget(100, 100, []int{2000, 1000})
	fmt.Println(err)
	// Output:
	// [600 300] <nil>
	// budget of 100 parameters, of which filters without sharing need 100: 0 remain for 2 stores: infeasible budget
}
