package channels_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
)

// Two successive removals as one: the second refers to the channels that the first has kept.
func ExampleCompose() {
	first := []channels.Kept{{Filter: "a.weight", Width: 6, Channels: []int{0, 2, 5}}}
	then := []channels.Kept{{Filter: "a.weight", Width: 3, Channels: []int{0, 2}}}
	fmt.Println(channels.Compose(first, then))
	// Output:
	// [{a.weight 6 [0 5]}]
}
