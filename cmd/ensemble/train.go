package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func trainCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train -c FILE --run-dir DIR",
		Short: "Train networks on past forecasts",
		Long: "Train networks on past forecasts and evaluate them on held-out initialisations.\n" +
			"The run directory gets the model, checkpoints, events and scores. SIGTERM,\n" +
			"SIGINT and SIGUSR1 save the state and end with exit code 75.",
		Example: "  ensemble train -c train.yaml --run-dir runs/a\n" +
			"  ensemble train -c train.yaml --run-dir runs/a --resume auto\n" +
			"  ensemble train -c train.yaml --run-dir runs/b --set train.seed=2",
		Annotations: annotations("ensemble config explain, ensemble predict", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.RankLost, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	t := trainFlags{app: a, cmd: cmd, o: train.Options{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}}
	t.bind()
	cmd.RunE = a.runJob(t.run)
	return cmd
}

// trainFlags are the flags of `ensemble train`.
type trainFlags struct {
	app       *app
	cmd       *cobra.Command
	o         train.Options
	src       *config.Sources
	overwrite func() (string, error)
	threads   *uint
	passes    passFlags
}

func (t *trainFlags) bind() {
	f := t.cmd.Flags()
	t.src, t.overwrite, t.threads = configFlags(t.cmd), overwriteFlag(f), threadsFlag(f)
	t.passes.bind(f)
	f.StringVar(&t.o.RunDir, "run-dir", "", "run `DIR`")
	f.StringVar(&t.o.Timing.Log, "mllog", "", "new `FILE` for an MLPerf HPC log of the time to --quality")
	f.Float64Var(&t.o.Timing.Target, "quality", 0, "target validation `LOSS` at which the timing of --mllog stops")
	f.StringVar(&t.o.Resume, "resume", "", "resume the run from its last checkpoint (auto) or from this `STEP`")
}

// read checks the flags and fills the options.
//
// Errors: exit 64, those of config.LoadTrain.
func (t *trainFlags) read() (err error) {
	if err := requireFlags(t.cmd, "config", "run-dir"); err != nil {
		return err
	}
	if _, err := strconv.ParseUint(t.o.Resume, 10, 64); t.o.Resume != "" && t.o.Resume != "auto" && err != nil {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid step %q", t.o.Resume), At: "--resume", Fix: "give auto, or the number of a step"}
	}
	if (t.o.Timing.Log == "") != !t.cmd.Flags().Changed("quality") {
		return &exit.Error{Code: exit.Usage, What: "--mllog and --quality must be given together", At: "ensemble train", Fix: "give both, or neither"}
	}
	t.o.Timing.Benchmark = "ensemble"
	policy, err := t.overwrite()
	if err != nil {
		return err
	}
	t.o.Overwrite = policy == "always"
	t.o.Progress = t.app.progress
	if *t.threads > 0 {
		t.src.Set = append(t.src.Set, fmt.Sprintf("train.threads=%d", *t.threads))
	}
	more, err := t.passes.set()
	if err != nil {
		return err
	}
	t.src.Set = append(t.src.Set, more...)
	t.o.Config, err = config.LoadTrain(*t.src)
	return err
}

func (t *trainFlags) run(ctx context.Context, _ []string) (result, error) {
	err := t.read()
	if err != nil {
		return result{}, err
	}
	o := t.o
	if !team.IsNonRoot() {
		for _, w := range o.Config.Warnings() {
			t.app.warn(w)
		}
	}
	o.Timings = setup.UserTimings(t.app.log)
	r, err := train.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	data := map[string]any{"run_dir": r.RunDir, "steps": r.Steps, "complete": r.Complete, "input": r.Input}
	if r.Scores != nil {
		data["scores"] = r.Scores
	}
	if r.Sparsity != nil {
		data["sparsity"] = r.Sparsity
	}
	if r.Sharing != nil {
		data["sharing"] = r.Sharing
	}
	return result{data: data, shown: r, outputs: r.Outputs, warnings: r.Warnings, logged: true}, nil
}
