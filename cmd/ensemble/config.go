package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

func configCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check, show and explain the configuration of a training run",
		Example: "  ensemble config check -c train.yaml\n" +
			"  ensemble config show -c train.yaml --origin\n" +
			"  ensemble config explain train.loss",
		Annotations: notes("ensemble help train"),
		Args:        unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.result.printed = true
			return cmd.Help()
		},
	}
	cmd.AddCommand(configCheck(a), configShow(a), configExplain(a), configSchema(a))
	return cmd
}

func configCheck(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check -c FILE",
		Short:   "Report all faults of a configuration",
		Example: "  ensemble config check -c train.yaml\n  ensemble config check -c train.yaml --set train.epochs=5",
		Args:    noArgs, Annotations: notes("ensemble config explain"),
	}
	src := configFlags(cmd)
	cmd.RunE = a.do(func(context.Context, []string) (result, error) {
		c, err := config.LoadTrain(*src)
		if err != nil {
			return result{}, err
		}
		return result{warnings: c.Warnings(), data: map[string]string{"config_sha256": c.Hash()}, text: func(w io.Writer) error {
			_, err := io.WriteString(w, "the configuration is sound\n")
			return err
		}}, nil
	})
	return cmd
}

func configShow(a *app) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:     "show -c FILE",
		Short:   "Print the configuration that results from all sources",
		Example: "  ensemble config show -c train.yaml\n  ensemble config show -c train.yaml --origin --set train.epochs=5",
		Args:    noArgs, Annotations: notes("ensemble config explain"),
	}
	src := configFlags(cmd)
	cmd.Flags().BoolVar(&origin, "origin", false, "say behind each value where it comes from")
	cmd.RunE = a.do(func(context.Context, []string) (result, error) {
		c, err := config.LoadTrain(*src)
		if err != nil {
			return result{}, err
		}
		return result{warnings: c.Warnings(), data: map[string]any{"values": c.Values()},
			text: func(w io.Writer) error { return c.Show(w, origin) }}, nil
	})
	return cmd
}

func configExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "explain [KEY]",
		Short:   "Explain a key, the keys below it, or all keys",
		Example: "  ensemble config explain train.loss.kind\n  ensemble config explain data.split",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneArg(cmd, args)
			}
			return nil
		},
		Annotations: notes("ensemble config show"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return config.TrainSchema.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.do(func(_ context.Context, args []string) (result, error) {
			key := ""
			if len(args) > 0 {
				key = args[0]
			}
			var b bytes.Buffer
			if err := config.TrainSchema.Explain(&b, key); err != nil {
				return result{}, err
			}
			return result{data: map[string]string{"text": b.String()}, text: func(w io.Writer) error {
				_, err := b.WriteTo(w)
				return err
			}}, nil
		}),
	}
}

func configSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "schema",
		Short:       "Print the JSON Schema of train.yaml, for editors",
		Example:     "  ensemble config schema > train.schema.json",
		Args:        noArgs,
		Annotations: notes("ensemble config explain"),
		RunE: a.do(func(context.Context, []string) (result, error) {
			text, err := config.TrainSchema.JSONSchema()
			if err != nil {
				return result{}, err
			}
			return result{data: map[string]json.RawMessage{"json_schema": text}, text: func(w io.Writer) error {
				_, err := w.Write(append(text, '\n'))
				return err
			}}, nil
		}),
	}
}
