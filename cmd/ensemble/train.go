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
	o := train.Options{Version: version.String(), Warn: a.warn, Stop: func() error { return a.flag.Err() }}
	cmd := &cobra.Command{
		Use:   "train -c FILE --run-dir DIR",
		Short: "Train networks on past forecasts and judge them",
		Long: "Train networks on past forecasts and judge them on starts that they have not\n" +
			"seen. The run directory gets the model, checkpoints, events and scores.\n" +
			"SIGTERM, SIGINT and SIGUSR1 save the state and end with exit code 75.",
		Example: "  ensemble train -c train.yaml --run-dir runs/a\n" +
			"  ensemble train -c train.yaml --run-dir runs/a --resume auto\n" +
			"  ensemble train -c train.yaml --run-dir runs/b --set train.seed=2",
		Annotations: notes("ensemble config explain, ensemble predict", exit.BadData, exit.NotYet, exit.NoDevice, exit.RankLost, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlags(cmd)
	reporter := a.progressFlag(cmd.Flags())
	overwrite := overwriteFlag(cmd.Flags())
	threads := threadsFlag(cmd.Flags())
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "`DIR` of this run")
	cmd.Flags().StringVar(&o.Timed.Log, "mllog", "", "new `FILE` for a log of the time to --quality, by the rules of MLPerf HPC")
	cmd.Flags().Float64Var(&o.Timed.Target, "quality", 0, "`LOSS` on the validation starts at which the clock of --mllog stops")
	cmd.Flags().StringVar(&o.Resume, "resume", "", "go on with a run: auto, or the number of a `STEP`")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (result, error) {
		if err := required(cmd, "run-dir"); err != nil {
			return result{}, err
		}
		if _, err := strconv.ParseUint(o.Resume, 10, 64); o.Resume != "" && o.Resume != "auto" && err != nil {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no step", o.Resume), At: "--resume", Fix: "give auto, or the number of a step"}
		}
		if (o.Timed.Log == "") != !cmd.Flags().Changed("quality") {
			return result{}, &exit.Error{Code: exit.Usage, What: "--mllog and --quality go together", At: "ensemble train", Fix: "give both, or none"}
		}
		o.Timed.Benchmark = "ensemble"
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Overwrite = policy == "always"
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		if *threads > 0 {
			src.Set = append(src.Set, fmt.Sprintf("train.threads=%d", *threads))
		}
		if o.Config, err = config.LoadTrain(*src); err != nil {
			return result{}, err
		}
		if team.Follows() {
			o.Progress = nil
		} else {
			for _, w := range o.Config.Warnings() {
				a.warn(w)
			}
		}
		o.Timings = setup.UserTimings(a.log)
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
		return result{data: data, shown: r, outputs: r.Outputs, warnings: r.Warnings, told: true}, nil
	})
	return cmd
}
