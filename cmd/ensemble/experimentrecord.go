package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// experimentsDir is where what became of experiments lies by default, and reproduced the folder in it of what was replayed.
const (
	experimentsDir = "runs/experiments"
	reproducedDir  = "reproduced"
)

// experimentFlags adds the flags of commands that run what experiment.yaml says, below experimentsDir in a folder
// of the name out, with the threads of what they are of, and gives their options.
func experimentFlags(a *app, cmd *cobra.Command, out, of string) func() (experiment.Options, error) {
	o := experiment.Options{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	f := cmd.Flags()
	f.StringVarP(&o.Dir, "out", "o", "", "`DIR` of everything it makes (default "+experimentsDir+"/"+out+")")
	f.StringVar(&o.Data, "data", "", "`DIR` of the data (default ENSEMBLE_DATA/NAME, or what the experiment says)")
	f.BoolVar(&o.Fetch, "fetch", false, "get files that are not here from the addresses that the experiment names")
	f.BoolVar(&o.MLLog, "mllog", false, "log the time of each training to the quality that the experiment names, by the rules of MLPerf HPC")
	reporter := a.progressFlag(f)
	overwrite := overwriteFlag(f)
	threads := f.Uint("threads", 0, "threads; 0 takes those of the "+of)
	return func() (experiment.Options, error) {
		policy, err := overwrite()
		if err != nil {
			return o, err
		}
		o.Overwrite, o.Threads = policy == "always", int(*threads)
		o.Timings = setup.UserTimings(a.log)
		o.Progress, err = reporter()
		return o, err
	}
}

func experimentRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Run an experiment and compare its scores with those expected",
		Long: "Run what DIR/experiment.yaml says: find or make the data and compare their\n" +
			"digests, train, score, and compare with the scores that are expected, within\n" +
			"the tolerances that are stated. It prints a table of passes and failures and\n" +
			"ends with 1 if one failed. record.json keeps what went in and what came out.\n" +
			"What was finished before is not done again. ENSEMBLE_ variables change nothing.",
		Example: "  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment run experiments/gcm --data /data/gcm --out runs/gcm\n" +
			"  ensemble experiment run experiments/gcm --to-quality",
		Annotations: annotations("ensemble experiment reproduce, docs/experiments.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOne("the folder of an experiment"),
	}
	options := experimentFlags(a, cmd, "NAME", "experiment")
	alone := cmd.Flags().Bool("to-quality", false, "train to the quality that the experiment names, with each of its seeds, and time that: no scores; quality.json in place of record.json")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o, err := options()
		if err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		o.ToQuality = *alone
		if o.Experiment, err = config.LoadExperiment(args[0]); err != nil {
			return result{}, err
		}
		if o.Dir == "" {
			o.Dir = filepath.Join(experimentsDir, o.Experiment.Name)
		}
		r, err := experiment.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		if !r.Passed() {
			err = &exit.Error{Code: exit.No, What: "the experiment " + o.Experiment.Name + " did not reach what is expected of it", At: r.Path, Fix: "see the table; `ensemble experiment reproduce` says what differs from a record that did"}
		}
		return result{data: r.Record, shown: r, outputs: []string{r.Path}, logged: true}, err
	})
	return cmd
}

func experimentReproduce(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce RECORD",
		Short: "Replay a record and say what differs",
		Long: "Run the experiment that a record holds, with its number of threads, and compare:\n" +
			"digests of weights, checkpoints, scores and products, and the scores within\n" +
			"their tolerances. On the same kind of processor, with the same libraries and\n" +
			"threads, the bits must be the same; elsewhere what differs is named. It ends\n" +
			"with 1 if the record was not reproduced.",
		Example: "  ensemble experiment reproduce experiments/small/record.json\n" +
			"  ensemble experiment reproduce gcm.json --data /data/gcm --out runs/replay",
		Annotations: annotations("ensemble experiment run, docs/formats/record.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOne("a record"),
	}
	options := experimentFlags(a, cmd, reproducedDir, "record")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o, err := options()
		if err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		if o.Dir == "" {
			o.Dir = filepath.Join(experimentsDir, reproducedDir)
		}
		r, err := experiment.Reproduce(ctx, args[0], o)
		if err != nil {
			return result{}, err
		}
		if !r.Passed() {
			err = &exit.Error{Code: exit.No, What: "the record was not reproduced", At: args[0], Fix: "see the table"}
		}
		return result{data: r.Comparison, shown: r, outputs: []string{r.Path}, logged: true}, err
	})
	return cmd
}

func experimentList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "list [DIR]",
		Short:       "List the experiments in a folder",
		Long:        "List the experiments in a folder, whether their data are here, and what became\nof them when they were last run.",
		Example:     "  ensemble experiment list\n  ensemble experiment list my/experiments --runs /scratch/runs",
		Annotations: annotations("ensemble experiment run", exit.NotYet),
		Args:        atMostOneArg,
	}
	runs := cmd.Flags().String("runs", experimentsDir, "`DIR` of what was run")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		root := config.ExperimentsFolder
		if len(args) > 0 {
			root = args[0]
		}
		list, err := experiment.List(root, *runs)
		if err != nil {
			return result{}, err
		}
		return result{data: map[string]any{"experiments": list}, shown: list}, nil
	})
	return cmd
}

func experimentCompare(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare DIR...",
		Short: "Compare runs and collect all their scores",
		Long: "Compare the runs in folders: run directories, experiments that were run, or\n" +
			"folders that hold many. It prints the scores of the networks side by side, and\n" +
			"in what the machines of records differ. --out gets scores.parquet with all\n" +
			"scores of all runs, and a page to sort and look at.",
		Example: "  ensemble experiment compare runs/experiments/gcm runs/experiments/small\n" +
			"  ensemble experiment compare runs --out runs/all",
		Annotations: annotations("ensemble experiment run, docs/experiments.md", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        atLeastOneArg,
	}
	out := cmd.Flags().StringP("out", "o", "", "`DIR` of the table and the page")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		c, err := experiment.Collect(ctx, args)
		if err != nil {
			return result{}, err
		}
		if *out != "" {
			if err := c.Save(*out); err != nil {
				return result{}, err
			}
		}
		return result{data: c, outputs: c.Outputs}, nil
	})
	return cmd
}

// exactlyOne wants one argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d arguments are given", len(args)), At: cmd.CommandPath(), Fix: "give one: " + what}
	}
}
