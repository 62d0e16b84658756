package setup_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// Sizes of fields on the command line.
func ExampleParseCrop() {
	square, _ := setup.ParseCrop("128")
	field, err := setup.ParseCrop("352x704")
	fmt.Println(square.Height, square.Width, field.Height, field.Width, err)
	// Output: 128 128 352 704 <nil>
}
