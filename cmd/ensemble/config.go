package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func configCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:   "config",
		Short: "Check, show and explain configuration files",
		Example: "  ensemble config check -c train.yaml\n" +
			"  ensemble config show -c train.yaml --origin\n" +
			"  ensemble config explain train.loss\n" +
			"  ensemble config check --schema predict -c predict.yaml",
		Annotations: annotations("ensemble help train, ensemble help predict"),
	}, configCheck(a), configShow(a), configExplain(a), configSchema(a))
}

func configCheck(a *app) *cobra.Command {
	var schedule bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration and report all faults",
		Example: "  ensemble config check -c train.yaml\n  ensemble config check -c train.yaml --set train.epochs=5\n" +
			"  ensemble config check -c train.yaml --schedule",
		Args: noArgs, Annotations: annotations("ensemble config explain", exit.BadData, exit.NotYet),
	}
	src, load := configFlags(cmd), schemaFlag(cmd)
	cmd.Flags().BoolVar(&schedule, "schedule", false, "print the learning rate of every step of a training, with the number of initialisations from the index of its files or its store")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		_, c, err := load(*src)
		if err != nil {
			return result{}, err
		}
		if schedule {
			return trainingSchedule(ctx, c)
		}
		text := "the configuration is valid\n"
		if _, train := c.(*config.TrainConfig); train {
			text += "its files were not opened: `" + commandLine(append([]string{"check"}, configArguments(*src)...)) + "` checks them\n"
		}
		return result{warnings: c.Warnings(), data: map[string]string{"config_sha256": c.Hash()}, text: func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}}, nil
	})
	return cmd
}

// configArguments returns the flags that name the sources of a configuration.
func configArguments(src config.Sources) (args []string) {
	for _, f := range src.Files {
		args = append(args, "-c", f)
	}
	for _, s := range src.Set {
		args = append(args, "--set", s)
	}
	return args
}

// trainingSchedule is `ensemble config check --schedule`.
func trainingSchedule(ctx context.Context, c loadedConfig) (result, error) {
	t, ok := c.(*config.TrainConfig)
	if !ok {
		return result{}, &exit.Error{Code: exit.Usage, What: "only trainings have a schedule", At: "--schedule", Fix: "remove --schedule, or set --schema train"}
	}
	s, err := train.ReadSchedules(ctx, t)
	if err != nil {
		return result{}, err
	}
	return result{warnings: append(c.Warnings(), s.Warnings...), data: s, shown: s}, nil
}

func configShow(a *app) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:     "show -c FILE",
		Short:   "Print the effective configuration",
		Example: "  ensemble config show -c train.yaml\n  ensemble config show -c train.yaml --origin --set train.epochs=5",
		Args:    noArgs, Annotations: annotations("ensemble config explain"),
	}
	src, load := configFlags(cmd), schemaFlag(cmd)
	cmd.Flags().BoolVar(&origin, "origin", false, "add the source of each value as a comment")
	cmd.RunE = a.runJob(func(context.Context, []string) (result, error) {
		_, c, err := load(*src)
		if err != nil {
			return result{}, err
		}
		return result{warnings: c.Warnings(), data: map[string]any{"values": c.Values()},
			text: func(w io.Writer) error { return c.Show(w, origin) }}, nil
	})
	return cmd
}

func configExplain(a *app) *cobra.Command {
	var load func(config.Sources) (*config.Schema, loadedConfig, error)
	cmd := &cobra.Command{
		Use:         "explain [KEY]",
		Short:       "Explain configuration keys: meaning, default, example",
		Example:     "  ensemble config explain train.loss.kind\n  ensemble config explain data.split",
		Args:        atMostOneArg,
		Annotations: annotations("ensemble config show"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return config.TrainSchema.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.runJob(func(_ context.Context, args []string) (result, error) {
			key := ""
			if len(args) > 0 {
				key = args[0]
			}
			schema, _, err := load(config.Sources{})
			if schema == nil {
				return result{}, err
			}
			var b bytes.Buffer
			if err := schema.Explain(&b, key); err != nil {
				return result{}, err
			}
			return result{data: map[string]string{"text": b.String()}, text: func(w io.Writer) error {
				_, err := b.WriteTo(w)
				return err
			}}, nil
		}),
	}
	load = schemaFlag(cmd)
	return cmd
}

func configSchema(a *app) *cobra.Command {
	var load func(config.Sources) (*config.Schema, loadedConfig, error)
	cmd := &cobra.Command{
		Use:         "schema",
		Short:       "Print the JSON Schema of a configuration file",
		Example:     "  ensemble config schema > train.schema.json",
		Args:        noArgs,
		Annotations: annotations("ensemble config explain"),
		RunE: a.runJob(func(context.Context, []string) (result, error) {
			schema, _, err := load(config.Sources{})
			if schema == nil {
				return result{}, err
			}
			text, err := schema.JSONSchema()
			if err != nil {
				return result{}, err
			}
			return result{data: map[string]json.RawMessage{"json_schema": text}, text: func(w io.Writer) error {
				_, err := w.Write(append(text, '\n'))
				return err
			}}, nil
		}),
	}
	load = schemaFlag(cmd)
	return cmd
}

// loadedConfig is the loaded configuration of any command.
type loadedConfig interface {
	Warnings() []string
	Hash() string
	Values() map[string]config.Setting
	Show(w io.Writer, origin bool) error
}

// schemaFlag adds the flag that names the command of a configuration, and returns a function that
// loads such a configuration. The function returns the schema also if loading fails, and nil
// for an unknown command.
func schemaFlag(cmd *cobra.Command) func(config.Sources) (*config.Schema, loadedConfig, error) {
	of := cmd.Flags().String("schema", "train", "command that the file configures: train, predict, prune, distil or quantise")
	return func(src config.Sources) (*config.Schema, loadedConfig, error) {
		if err := checkChoice("--schema", []string{*of}, "train", "predict", "prune", "distil", "quantise"); err != nil {
			return nil, nil, err
		}
		if *of == "predict" {
			c, err := config.LoadPredict(src)
			return config.PredictSchema, c, err
		}
		if *of == "prune" {
			c, err := config.LoadPrune(src)
			return config.PruneSchema, c, err
		}
		if *of == "distil" {
			c, err := config.LoadDistil(src)
			return config.DistilSchema, c, err
		}
		if *of == "quantise" {
			c, err := config.LoadQuantise(src)
			return config.QuantiseSchema, c, err
		}
		c, err := config.LoadTrain(src)
		return config.TrainSchema, c, err
	}
}
