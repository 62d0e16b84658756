package workspace_test

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
)

// A convolution over 8 rows: an algorithm without workspace, and a faster one
// that wants 10 bytes a row.
func kernel(name string, fast time.Duration) workspace.Kernel {
	k := workspace.Kernel{Name: name, Size: 8}
	for _, rows := range workspace.PowerOfTwo.Sizes(k.Size) {
		k.Micros = append(k.Micros,
			workspace.Micro{Size: rows, Algorithm: "direct", Time: 10 * time.Duration(rows)},
			workspace.Micro{Size: rows, Algorithm: "tiles", Time: fast * time.Duration(rows+1), Bytes: 10 * int64(rows)})
	}
	return k
}

func ExampleKernel_Front() {
	front, err := kernel("forward", 4).Front()
	for _, c := range front {
		fmt.Printf("%v with %d bytes: %s\n", c.Time, c.Bytes, c)
	}
	fmt.Println(err)
	// Output:
	// 80ns with 0 bytes: 8 direct
	// 64ns with 10 bytes: 8x 1 tiles
	// 48ns with 20 bytes: 4x 2 tiles
	// 40ns with 40 bytes: 2x 4 tiles
	// 36ns with 80 bytes: 8 tiles
	// <nil>
}

func ExampleKernel_Reuse() {
	c, err := kernel("forward", 4).Reuse(50)
	fmt.Println(c, c.Bytes, err)
	// Output: 2x 4 tiles 40 <nil>
}

func ExampleDivide() {
	d, err := workspace.Divide([]workspace.Kernel{kernel("forward", 4), kernel("filter gradient", 6)}, 70, 1)
	for _, c := range d.Configs {
		fmt.Println(c)
	}
	fmt.Println(d.Time, d.Bytes, err)
	// Output:
	// 4x 2 tiles
	// 2x 4 tiles
	// 108ns 60 <nil>
}

func ExampleSlabs() {
	c, _ := kernel("forward", 4).Reuse(50)
	window := graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1}
	slabs, err := workspace.Slabs(c, window, false, 8, 8, 1)
	for _, s := range slabs {
		fmt.Printf("%s: rows %d–%d from %d–%d, %d and %d beyond the poles\n", s.Algorithm, s.First, s.End-1, s.InFirst, s.InEnd-1, s.PadLow, s.PadHigh)
	}
	fmt.Println(err)
	// Output:
	// tiles: rows 0–3 from 0–4, 1 and 0 beyond the poles
	// tiles: rows 4–7 from 3–7, 0 and 1 beyond the poles
	// <nil>
}
