package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func modelPromote(a *app) *cobra.Command {
	o := promote.Options{}
	cmd := &cobra.Command{
		Use:   "promote RUN_DIR --as NAME",
		Short: "Point a model name at a trained model",
		Long: "Point a model name at a trained model: copy the model of a finished run into the\n" +
			"directory NAME, so that `ensemble predict --run-dir NAME` uses it. The previous\n" +
			"version is kept for `ensemble model rollback`. With --verdict the model is\n" +
			"promoted only if the verification of its shadow run found it better\n" +
			"(docs/verification.md). RUN_DIR may be another model name.",
		Example: "  ensemble model promote runs/a --as models/t850\n" +
			"  ensemble model promote runs/b --as models/t850 \\\n" +
			"    --verdict rolling/shadow/verdict.json",
		Annotations: annotations("ensemble model rollback, ensemble verify", exit.No, exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "as", "", "model name, a `DIR`")
	f.StringVar(&o.Verdict, "verdict", "", "verdict.json `FILE` of the shadow run; its verdict must be \"better\"")
	f.BoolVar(&o.IgnoreVerdict, "ignore-verdict", false, "promote the model whatever the verdict")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "as"); err != nil {
			return result{}, err
		}
		if o.IgnoreVerdict && o.Verdict == "" {
			return result{}, &exit.Error{Code: exit.Usage, What: "--ignore-verdict without --verdict", At: cmd.CommandPath(), Fix: "leave it out, or give --verdict"}
		}
		o.RunDir = args[0]
		p, err := promote.Promote(o)
		if err != nil {
			return result{}, err
		}
		return promotionResult(o.Name, p), nil
	})
	return cmd
}

func modelRollback(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Roll back to a previous model version",
		Long: "Roll back to a previous model version: the one before the current version, or\n" +
			"--to. The current version is kept, so that a rollback can be undone.",
		Example:     "  ensemble model rollback models/t850\n  ensemble model rollback models/t850 --to 3f9a",
		Annotations: annotations("ensemble model history, ensemble model promote", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOneArg,
	}
	cmd.Flags().StringVar(&to, "to", "", "`VERSION`, or the beginning of its name")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		p, err := promote.RollBack(args[0], to)
		if err != nil {
			return result{}, err
		}
		return promotionResult(args[0], p), nil
	})
	return cmd
}

func modelHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "history NAME",
		Short:       "List the versions of a model name",
		Long:        "List the versions of a model name, the current one last.",
		Example:     "  ensemble model history models/t850\n  ensemble model history models/t850 --json",
		Annotations: annotations("ensemble model promote, ensemble model rollback", exit.BadData, exit.NotYet, exit.IO),
		Args:        exactlyOneArg,
	}
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		list, err := promote.ListPromotions(args[0])
		if err != nil {
			return result{}, err
		}
		return result{data: map[string]any{"history": list}, shown: list}, nil
	})
	return cmd
}

// promotionResult is the result of promote and rollback: the current version of the model name.
func promotionResult(name string, p *promote.Promotion) result {
	return result{data: map[string]any{"promotion": p}, text: func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: version %s\n", name, p.Version)
		return err
	}}
}
