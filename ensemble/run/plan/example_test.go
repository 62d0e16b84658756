package plan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// Predict a training step on 64 ranks of a described machine.
func ExampleRun() {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := config.LoadMachine("machine.yaml")
	if err != nil {
		log.Fatal(err)
	}
	r, err := plan.Run(context.Background(), plan.Options{Config: c, Machine: m, Ranks: 64, Crop: setup.Crop{Height: 352, Width: 704}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mesh %s: %.3f s per step, efficiency %.2f\n", r.Plan.Mesh, r.Plan.StepS, r.Plan.Efficiency)
}

// Show the halos of a mesh of 2×2 ranks.
func ExampleSplit() {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := plan.Split(context.Background(), c, "lat:2 lon:2")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range s.Halos {
		fmt.Println(h.Producer, "→", h.Consumer, h.Bytes, "bytes")
	}
}
