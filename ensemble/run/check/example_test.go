package check_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Check a file that should have four members, and print its faults.
func ExampleRun() {
	expect, err := check.ParseExpectation("members=4")
	if err != nil {
		log.Fatal(err)
	}
	r, err := check.Run(context.Background(), check.Options{Files: []string{"fc.grib2"}, Expect: expect})
	if r == nil {
		log.Fatal(err) // nothing could be read
	}
	for _, f := range r.Faults {
		fmt.Println(f.Kind+":", f.What)
	}
	if exit.CodeOf(err) == exit.No {
		fmt.Println("the input has faults")
	}
}

// List the content of a file. Statistics need every value, and so more time.
func ExampleInspect() {
	i, err := check.Inspect(context.Background(), check.InspectOptions{Files: []string{"fc.grib2"}, Stats: true})
	if err != nil {
		log.Print(err) // of damaged messages; the others are listed
	}
	if err := i.Sections().WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// Describe what every initialisation must contain.
func ExampleParseExpectation() {
	e, err := check.ParseExpectation("members=50+control,steps=0:48:24,variables=t,gh,levels=850hPa,500hPa")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(e.Members), "members,", e.Leads, e.Variables, e.Levels)
	// Output: 51 members, [0h 24h 48h] [t gh] [850hPa 500hPa]
}
