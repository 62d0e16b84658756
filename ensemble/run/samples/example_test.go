package samples_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
)

// Write the samples of a training into a store.
func ExamplePrepare() {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := samples.Prepare(context.Background(), samples.PrepareOptions{Config: c, Out: "store", Storage: samples.StorageNames()[0]})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Inits, "initialisations,", r.Bytes, "bytes,", r.Missing, "missing values")
}

// Compute the mean of the first training field over all samples.
func ExampleReadData() {
	ctx := context.Background()
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	forecasts, analyses, err := samples.TrainingFiles(c)
	if err != nil {
		log.Fatal(err)
	}
	d, err := samples.ReadData(ctx, c, forecasts, analyses, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	var sum, n float64
	err = d.Train.Each(ctx, nil, func(_ int, fc *ensemble.Forecast, _ []*ensemble.Analysis) error {
		for _, v := range fc.Field(0, 0, 0, 0) { // lead, member, variable, level
			sum += float64(v)
			n++
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum / n)
}

// Measure how fast a store can be read in random order.
func ExampleStoreBench() {
	r, err := samples.StoreBench(context.Background(), samples.StoreBenchOptions{Dir: "store", Inits: 100})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f MB/s, %.0f %% of the disk's rate\n", r.BytesPerS/1e6, 100*r.Ratio)
}
