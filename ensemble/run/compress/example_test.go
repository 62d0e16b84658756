package compress_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// Quantise a finished training to int8, and print speed and skill of each precision.
func ExampleQuantise() {
	c, err := config.LoadQuantise(config.Sources{Files: []string{"quantise.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := compress.Quantise(context.Background(), compress.QuantiseOptions{Config: c, RunDir: "runs/int8"})
	if err != nil {
		log.Fatal(err)
	}
	for i, g := range r.Ladder {
		fmt.Println(g.Name, g.Speedup, r.Table.Rows[i].Skill)
	}
}

// Remove channels of a trained network, and compare both networks.
func ExamplePrune() {
	c, err := config.LoadPrune(config.Sources{Files: []string{"prune.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := compress.Prune(context.Background(), c, compress.RetrainOptions{RunDir: "runs/pruned", Resume: "auto"})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range r.Table.Rows {
		fmt.Println(row.Run, row.Parameters, row.Milliseconds, row.Skill)
	}
}

// Train a smaller network on the predictions of a larger one.
func ExampleDistil() {
	c, err := config.LoadDistil(config.Sources{Files: []string{"distil.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := compress.Distil(context.Background(), c, compress.RetrainOptions{RunDir: "runs/student", Resume: "auto"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Steps, "steps")
}

// Compare finished trainings by skill, size and speed.
func ExampleCompareEfficiency() {
	t, err := compress.CompareEfficiency(context.Background(), []string{"runs/gcm", "runs/pruned"}, 4, setup.UserTimings(nil))
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range t.Rows {
		fmt.Println(row.Run, row.Nonzeros, row.Efficiency)
	}
}
