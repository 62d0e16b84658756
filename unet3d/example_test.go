package unet3d_test

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A U-Net with three poolings for 14 input channels on two levels.
func ExampleUNet() {
	net := unet3d.UNet{Out: 2, Base: 8, Stages: 3, Periodic: true}
	b := graph.New(1)
	y := net.Build(b, b.Input("input", graph.Shape{1, 14, 2, 32, 64}))
	fmt.Println(y.Shape(), net.Parameters(14), "parameters")

	net.Build(b, b.Input("odd", graph.Shape{1, 14, 2, 33, 64}))
	fmt.Println(errors.Is(b.Err(), graph.ErrShape)) // 8 does not divide 33
	// Output:
	// [1 2 2 32 64] 316522 parameters
	// true
}
