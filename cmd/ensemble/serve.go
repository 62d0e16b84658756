package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

func serveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [-c FILE] --run-dir DIR --input FILE... --out DIR",
		Short: "Run as a service: publish products as forecasts arrive",
		Long: "Run as a service: publish products as forecasts arrive, serve them over HTTP.\n" +
			"Each initialisation is processed as by `ensemble predict`, as soon as its files\n" +
			"are complete or at its deadline (docs/operations.md); the model stays loaded.\n" +
			"HTTP at --listen serves products, health checks, metrics and a page with state,\n" +
			"maps and meteograms, read-only, and by default to this machine only. SIGHUP\n" +
			"reloads the configuration; SIGTERM ends the service with exit code 75.",
		Example: "  ensemble serve --run-dir runs/a --input fc --out products\n" +
			"  ensemble serve -c serve.yaml\n" +
			"  ensemble serve -c predict.yaml --listen 127.0.0.1:8642 \\\n" +
			"    --listen unix:/run/ensemble/http.sock\n" +
			"  curl http://127.0.0.1:8642/products/",
		Annotations: annotations("ensemble predict, ensemble verify", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	var flags predictFlags
	flags.bind(a, cmd)
	listen := f.StringArray("listen", nil, "`ADDRESS` with port, or unix:PATH (repeatable; default 127.0.0.1:8642)")
	load := func() (o serve.Options, err error) {
		var more []config.Flag
		if *listen != nil {
			words := make([]string, len(*listen))
			for i, l := range *listen {
				words[i] = strconv.Quote(l)
			}
			more = append(more, config.Flag{Name: "--listen", Key: "serve.listen", Value: "[" + strings.Join(words, ", ") + "]"})
		}
		p, c, err := flags.read(more...)
		if err != nil {
			return o, err
		}
		p.Command, p.Timings, p.Records = a.predictCommandLine(cmd), setup.UserTimings(a.log), a.records
		return serve.Options{Predict: p, Service: c.Serve}, c.CheckService()
	}
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		o, err := load()
		if err != nil {
			return result{}, err
		}
		ctx = progress.With(ctx, nil) // a service logs its requests and products
		return result{}, serve.Serve(ctx, o, serve.Signals{Reload: a.flag.NotifyHangup(), Load: load}, a.log)
	})
	return cmd
}

// predictCommandLine is the command line of `ensemble predict` that makes the same products, without the
// flag of the initialisation. Products record it as their history.
func (a *app) predictCommandLine(cmd *cobra.Command) string {
	words := []string{"ensemble predict"}
	skip := false
	for i, arg := range a.args {
		name, _, joined := strings.Cut(arg, "=")
		switch {
		case skip:
			skip = false
		case i == 0 && arg == cmd.Name():
		case name == "--listen":
			skip = !joined
		default:
			words = append(words, arg)
		}
	}
	return strings.Join(words, " ")
}
