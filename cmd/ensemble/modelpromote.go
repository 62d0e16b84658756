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
		Short: "Let a name stand for a trained model",
		Long: "Copy the model of a finished training below the folder NAME, and let NAME stand\n" +
			"for it: `ensemble predict --run-dir NAME` takes it from then on. The one before\n" +
			"stays, for `ensemble model rollback`. With --verdict it is promoted only if the\n" +
			"verification of its shadow run says that it is better (docs/verification.md).\n" +
			"RUN_DIR may be another name, whose model NAME is to stand for too.",
		Example: "  ensemble model promote runs/a --as models/t850\n" +
			"  ensemble model promote runs/b --as models/t850 \\\n" +
			"    --verdict rolling/shadow/verdict.json",
		Annotations: annotations("ensemble model rollback, ensemble verify", exit.No, exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "as", "", "`DIR` of the name")
	f.StringVar(&o.Verdict, "verdict", "", "`FILE` verdict.json of its shadow run, which must be \"better\"")
	f.BoolVar(&o.IgnoreVerdict, "despite-verdict", false, "promote it whatever the verdict")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "as"); err != nil {
			return result{}, err
		}
		if o.IgnoreVerdict && o.Verdict == "" {
			return result{}, &exit.Error{Code: exit.Usage, What: "--despite-verdict without --verdict", At: cmd.CommandPath(), Fix: "leave it out: without a verdict none is asked for"}
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
		Short: "Let a name stand for a model of before",
		Long: "Let a name stand for the model that it stood for before the present one, or for\n" +
			"the version --to. The model that it leaves stays, so that one can go back again.",
		Example:     "  ensemble model rollback models/t850\n  ensemble model rollback models/t850 --to 3f9a",
		Annotations: annotations("ensemble model history, ensemble model promote", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOneArg,
	}
	cmd.Flags().StringVar(&to, "to", "", "`VERSION`, or how it begins")
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
		Short:       "List the models that a name stood for",
		Long:        "List the models that a name stood for, the one in use last.",
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

// promotionResult is the answer with the model that a name stands for now.
func promotionResult(name string, p *promote.Promotion) result {
	return result{data: map[string]any{"promotion": p}, text: func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s stands for version %s\n", name, p.Version)
		return err
	}}
}
