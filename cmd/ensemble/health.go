package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// healthLimit is the longest time of a health check.
const healthLimit = 5 * time.Second

func healthCommand(a *app) *cobra.Command {
	var listen string
	var ready, container bool
	cmd := &cobra.Command{
		Use:   "health [--listen ADDRESS]",
		Short: "Check whether a service on this machine works",
		Long: "Check whether a service on this machine works: exit code 0 if /healthz of\n" +
			"`ensemble serve` answers ok within five seconds, else 1. With --ready also that\n" +
			"the model is loaded and the products are young enough (/readyz).",
		Example: "  ensemble health\n" +
			"  ensemble health --ready --listen unix:/run/ensemble/http.sock",
		Annotations: annotations("ensemble serve, ensemble self-test", exit.No),
		Args:        noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8642", "`ADDRESS` of the service with port, or unix:PATH")
	f.BoolVar(&ready, "ready", false, "check /readyz")
	f.BoolVar(&container, "container", false, "in a container: succeed if its process 1 is no `ensemble serve`")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		path := "/healthz"
		if ready {
			path = "/readyz"
		}
		text := "ok"
		if container && !isService("/proc/1/cmdline") {
			text = "process 1 is no service"
		} else if err := serve.Probe(ctx, listen, path, healthLimit); err != nil {
			return result{}, err
		}
		return result{text: func(w io.Writer) error {
			_, err := fmt.Fprintln(w, text)
			return err
		}}, nil
	})
	return cmd
}

// isService reports whether a file of /proc has the command line of `ensemble serve`.
func isService(path string) bool {
	text, err := filesystem.ReadFile(path)
	words := bytes.Split(text, []byte{0})
	return err == nil && slices.ContainsFunc(words[1:], func(w []byte) bool { return string(w) == "serve" })
}
