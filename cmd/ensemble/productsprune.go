package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/retention"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func productsPrune(a *app) *cobra.Command {
	o := retention.Options{}
	var keep string
	cmd := &cobra.Command{
		Use:   "prune --out DIR --keep AGE",
		Short: "Remove the products of old initialisations",
		Long: "Remove the products of old initialisations. Without --yes the command only lists\n" +
			"what it would remove, with sizes. These stay: the newest initialisation, those\n" +
			"that a symbolic link such as `latest` leads to, those that another process is\n" +
			"writing, and those about which an operator has to decide. A running service does\n" +
			"not make removed products again; `ensemble predict --init` does.",
		Example: "  ensemble products prune --out products --keep 30d\n" +
			"  ensemble products prune --out products --keep 30d --keep-last 60 --yes",
		Annotations: annotations("ensemble serve, ensemble predict", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        noArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "product `DIR`")
	f.StringVar(&keep, "keep", "", "keep initialisations up to this `AGE`, such as 30d or 48h")
	f.IntVar(&o.KeepLast, "keep-last", 0, "keep the newest `N` initialisations, whatever their age (at least 1)")
	f.BoolVar(&o.Remove, "yes", false, "remove; without it nothing is removed")
	cmd.RunE = a.runJob(func(context.Context, []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		if f.Changed("keep") {
			var err error
			if o.MaxAge, err = config.ParseDuration(keep); err != nil || o.MaxAge <= 0 {
				return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid age %q", keep), At: "--keep", Fix: "write it as 30d or 48h"}
			}
		}
		if f.Changed("keep-last") && o.KeepLast < 1 {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("--keep-last is %d", o.KeepLast), At: "--keep-last", Fix: "write 1 or more: the newest initialisation always stays"}
		}
		var err error
		if o.Held, err = serve.Undecided(o.Out); err != nil {
			return result{}, err
		}
		r, err := retention.Prune(o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, shown: r}, nil
	})
	return cmd
}
