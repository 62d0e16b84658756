package predict_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Publish mean, spread and quantiles of one initialisation as NetCDF. Wait up to 40 minutes for complete input.
func ExampleRun() {
	c, err := config.LoadPredict(config.Sources{Set: []string{"products=[mean, spread, quantiles]", "quantiles=[0.1, 0.5, 0.9]"}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := predict.Run(context.Background(), predict.Options{
		RunDir: "runs/gcm", Input: []string{"fc/*.grib2"}, Out: "products",
		Init: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Deadline: time.Now().Add(40 * time.Minute),
		Policy: c.Policy, Publish: c.Publishing, Formats: []product.Format{product.NetCDF},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range r.Outputs {
		fmt.Println(path)
	}
}

// Keep a model loaded, and issue initialisations as their files arrive.
func ExampleOpenService() {
	m, err := predict.OpenService(predict.Options{RunDir: "models/t850", Input: []string{"/data/fc"}, Out: "products", Formats: []product.Format{product.NetCDF}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ctx := context.Background()
	for {
		candidates, _, err := m.Scan(ctx, time.Now().Add(-24*time.Hour))
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range candidates {
			if !c.Due {
				fmt.Println(c.Init, "waits for", c.Missing)
			} else if _, err := m.Issue(ctx, c, nil); err != nil {
				log.Print(err)
			}
		}
		time.Sleep(m.PollInterval())
	}
}
