package exit_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func ExampleError() {
	err := fmt.Errorf("init 2026-01-01T00: %w", &exit.Error{Code: exit.BadData, What: "fields differ in their grid", At: "a.grib, message 3",
		Why: "181×360 points, want 721×1440", Fix: "download the file again"})
	fmt.Println(exit.CodeOf(err))
	fmt.Println(exit.OneLine(err))
	// Output:
	// 65
	// fields differ in their grid: a.grib, message 3: 181×360 points, want 721×1440
}
