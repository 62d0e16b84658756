package draft_test

import (
	"context"
	"log"
	"os"

	"github.com/ensemble-weather/ensemble/ensemble/run/draft"
)

// Write the first configuration for the files of an archive.
func ExampleRun() {
	d, err := draft.Run(context.Background(), draft.Options{Files: []string{"fc", "an"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("train.yaml", d.Config, 0o666); err != nil {
		log.Fatal(err)
	}
}
