package main

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/internal/version"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Print version information",
		Example:     "  ensemble version\n  ensemble version --json",
		Args:        noArgs,
		Annotations: annotations("ensemble doctor"),
		RunE: a.runJob(func(context.Context, []string) (result, error) {
			return versionResult(), nil
		}),
	}
}

// versionResult is the result of `ensemble version` and of --version.
func versionResult() result {
	return result{data: map[string]string{"go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH},
		text: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "ensemble %s, %s, %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}}
}
