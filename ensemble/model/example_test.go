package model_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Load a model and print mean and spread of its first target at the first grid point.
func ExampleModel_Predict() {
	m, err := model.Load("runs/gcm/model", true)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fc := ensemble.NewForecast(ensemble.Init{}, m.Task.Features.Axes, []ensemble.Member{0, 1, 2}, m.Grid) // filled by Forecast.Put
	out, err := m.Predict(context.Background(), engine.Options{}, fc, fc.Members)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Mean[0], out.Sigma[0])
}

// The probability of more than 1 K above the mean of a normal distribution with a standard deviation of 1 K.
func ExampleExceedanceProbabilities() {
	p := model.ExceedanceProbabilities(dist.Normal, [][]float32{{280, 285}, {1, 1}}, 281)
	fmt.Printf("%.3f\n", p)
	// Output: [0.159 1.000]
}
