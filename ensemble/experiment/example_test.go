package experiment_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
)

// Run an experiment with all its variants and seeds.
func ExampleRun() {
	c, err := experimentfile.Load("experiments/small")
	if err != nil {
		log.Fatal(err)
	}
	r, err := experiment.Run(context.Background(), experiment.Options{Experiment: c, Dir: "runs/experiments/small", Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("record", r.Path)
}

// Repeat an experiment from its record, and compare the results.
func ExampleReproduce() {
	r, err := experiment.Reproduce(context.Background(), "experiments/small/record.json", experiment.Options{Dir: "runs/experiments/reproduced", Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r)
}

// Compare a base configuration with a wider network, three seeds each.
func ExampleRunStudy() {
	s, err := experiment.RunStudy(context.Background(), experiment.StudyOptions{Config: config.Sources{Files: []string{"train.yaml"}}, Dir: "runs/width", Seeds: 3, Reference: "base",
		Variants: []experiment.Variant{{Name: "base"}, {Name: "wide", Set: []string{"model.base=16"}}}, Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reference)
}

// Collect the records below a folder.
func ExampleCollect() {
	c, err := experiment.Collect(context.Background(), []string{"runs"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(c.Differences), "machines that differ")
}
