package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// experimentsDir is the default directory of results of experiments; reproduced is its
// subdirectory for reproduced records.
const (
	experimentsDir = "runs/experiments"
	reproducedDir  = "reproduced"
)

// experimentFlags adds the flags of commands that run an experiment.yaml, and returns a function
// that reads them. out is the default subdirectory of experimentsDir; of names the source of
// the default number of threads, for the help.
func experimentFlags(a *app, cmd *cobra.Command, out, of string) func() (experiment.Options, error) {
	o := experiment.Options{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	f := cmd.Flags()
	f.StringVarP(&o.Dir, "out", "o", "", "`DIR` of all output (default "+experimentsDir+"/"+out+")")
	f.StringVar(&o.Data, "data", "", "`DIR` of the data (default: ENSEMBLE_DATA/NAME, or data.folder of the experiment)")
	f.BoolVar(&o.Fetch, "fetch", false, "download missing files from the URLs in the experiment")
	f.BoolVar(&o.MLLog, "mllog", false, "log the time of each training to the target quality of the experiment, as MLPerf HPC defines it")
	overwrite := overwriteFlag(f)
	threads := f.Uint("threads", 0, "number of threads; 0: that of the "+of)
	return func() (experiment.Options, error) {
		policy, err := overwrite()
		if err != nil {
			return o, err
		}
		o.Overwrite, o.Threads = policy == "always", int(*threads)
		o.Timings = setup.UserTimings(a.log)
		o.Progress = a.progress
		return o, err
	}
}

func experimentRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Run an experiment and check its expected scores",
		Long: "Run the experiment of DIR/experiment.yaml: find or generate the data and check\n" +
			"their checksums, train, score, and compare with the expected scores and their\n" +
			"tolerances. It prints a table of checks; exit code 1 means that one failed.\n" +
			"record.json contains all inputs and results. Finished steps are not repeated.\n" +
			"Environment variables ENSEMBLE_* do not change the configuration.",
		Example: "  ensemble experiment run experiments/demo\n" +
			"  ensemble experiment run experiments/gcm --data /data/gcm --out runs/gcm\n" +
			"  ensemble experiment run experiments/gcm --to-quality",
		Annotations: annotations("ensemble experiment reproduce, docs/experiments.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOne("the directory of an experiment"),
	}
	options := experimentFlags(a, cmd, "NAME", "experiment")
	alone := cmd.Flags().Bool("to-quality", false, "measure only the training time to the target quality, for each seed; writes quality.json instead of record.json")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		o, err := options()
		if err != nil {
			return result{}, err
		}
		o.ToQuality = *alone
		if o.Experiment, err = experimentfile.Load(args[0]); err != nil {
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
			err = &exit.Error{Code: exit.No, What: "experiment " + o.Experiment.Name + " failed a check", At: r.Path, Fix: "see the table; `ensemble experiment reproduce` shows differences to a record that passed"}
		}
		return result{data: r.Record, shown: r, outputs: r.Outputs(), logged: true}, err
	})
	return cmd
}

func experimentReproduce(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce RECORD",
		Short: "Reproduce a record and report differences",
		Long: "Reproduce a record: run its experiment with the same number of threads, and\n" +
			"compare checksums of weights, checkpoints, scores and products, and scores\n" +
			"within their tolerances. Results must be bit-identical on the same type of\n" +
			"processor with the same libraries and threads; otherwise the differences are\n" +
			"listed. Exit code 1 means that the record was not reproduced.",
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
		Short:       "List the experiments in a directory",
		Long:        "List the experiments in a directory, the availability of their data, and the\nstatus of their last run.",
		Example:     "  ensemble experiment list\n  ensemble experiment list my/experiments --runs /scratch/runs",
		Annotations: annotations("ensemble experiment run", exit.NotYet),
		Args:        atMostOneArg,
	}
	runs := cmd.Flags().String("runs", experimentsDir, "`DIR` of results")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		root := experimentfile.ExperimentsFolder
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
		Short: "Compare scores of several runs",
		Long: "Compare scores of several runs: run directories, results of experiments, or\n" +
			"directories that contain them. It prints the scores of the networks side by\n" +
			"side, and the differences between the machines. --out writes scores.parquet\n" +
			"with all scores of all runs, and an HTML page with sortable tables.",
		Example: "  ensemble experiment compare runs/experiments/gcm runs/experiments/small\n" +
			"  ensemble experiment compare runs --out runs/all",
		Annotations: annotations("ensemble experiment run, docs/experiments.md", exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        atLeastOneArg,
	}
	out := cmd.Flags().StringP("out", "o", "", "`DIR` for the table and the HTML page")
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

// exactlyOne requires exactly one argument; what describes it in the error.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("got %d arguments, want one", len(args)), At: cmd.CommandPath(), Fix: "give " + what}
	}
}
