package train_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Train a configuration, or continue the training in its run directory. Ctrl-C saves a checkpoint.
func ExampleRun() {
	c, err := config.LoadTrain(config.Sources{Files: []string{"train.yaml"}, Set: []string{"train.epochs=20"}})
	if err != nil {
		log.Fatal(err)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := train.Run(context.Background(), train.Options{Config: c, RunDir: "runs/gcm", Resume: "auto", Version: "1.0", Stop: interrupted.Err})
	if exit.CodeOf(err) == exit.SaveAndStop {
		fmt.Println("stopped; run again to continue")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	if r.Scores != nil {
		crps := r.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h")
		fmt.Printf("%d steps, CRPS %.3g\n", r.Steps, crps.Value)
	}
}
