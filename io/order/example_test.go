package order_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/order"
)

// A global file that begins at 180 W: column 2 becomes the first.
func ExampleLongitudes() {
	lon, roll := order.Longitudes(-180, 90, 4)
	fmt.Println(lon, roll)
	// Output: [0 90 180 270] 2
}

// A file with rows from south to north, read to rows from north to south.
func ExampleToNormal() {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 3, NY: 2, Source: ensemble.SourceOrder{SouthFirst: true}}
	normal := make([]float32, g.Size())
	if err := order.ToNormal(normal, []float32{1, 2, 3, 4, 5, 6}, g); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(normal)
	// Output: [4 5 6 1 2 3]
}
