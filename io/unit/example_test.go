package unit_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/io/unit"
)

// Degrees Celsius become kelvin; a difference of two temperatures has no offset.
func ExampleToSI() {
	c := unit.ToSI("degC", "K")
	values := []float32{-10, 0, 25}
	c.Apply(values)
	fmt.Println(values, c.SI)
	spread := []float32{1.5}
	c.Difference().Apply(spread)
	fmt.Println(spread, c.SI)
	// Output:
	// [263.15 273.15 298.15] K
	// [1.5] K
}

func ExampleNormalise() {
	fmt.Println(unit.Normalise("m**2 s**-2"), unit.Normalise("m^2/s^2"))
	// Output: m2 s-2 m2 s-2
}
