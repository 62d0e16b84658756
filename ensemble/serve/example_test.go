package serve_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Publish products as forecasts arrive, until Ctrl-C.
func ExampleServe() {
	c, err := config.LoadPredict(config.Sources{Files: []string{"serve.yaml"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := serve.Options{Predict: predict.Options{RunDir: "models/t850", Input: []string{"/data/fc"}, Out: "products", Policy: c.Policy, Publish: c.Publishing, Formats: []product.Format{product.NetCDF}}, Service: c.Serve}
	if err := serve.Serve(ctx, o, serve.Signals{}, slog.Default()); err != nil {
		log.Fatal(err)
	}
}
