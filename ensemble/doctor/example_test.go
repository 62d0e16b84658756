package doctor_test

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/doctor"
)

// Report what this machine has, and what missing libraries would enable.
func ExampleExamine() {
	r, err := doctor.Examine(context.Background(), ".")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.CPU.Cores > 0, r.Memory.TotalBytes > 0, len(r.Libraries) > 0)
	// Output: true true true
}
