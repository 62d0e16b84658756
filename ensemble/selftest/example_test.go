package selftest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/selftest"
)

// Test the installation on the file system of the current folder.
func ExampleRun() {
	r, err := selftest.Run(context.Background(), selftest.Options{Dir: "."})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range r.Checks {
		fmt.Println(c.Name, c.State, c.Detail)
	}
}
