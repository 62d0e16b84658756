package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// planLong is the help of the command.
const planLong = "Predict time and memory of a training on this machine and, with --ranks, the\n" +
	"parallel performance of a training step with a cost model: the best mesh\n" +
	"as text for train.mesh (with redistributions, if small fields are distributed\n" +
	"differently), the distribution of each layer, time of a step, memory of a rank,\n" +
	"cost of halo exchange, statistics and gradients and how much of it overlaps with\n" +
	"computation, the cost of every mesh without redistribution, and which parallel\n" +
	"systems are faster (docs/scaling.md). Nothing is trained and no field is read.\n" +
	"Without --crop the grid is that of the forecast files. Without --machine the\n" +
	"machine is that of train.machine, or else nodes like this one.\n\n" +
	"--time predicts a training step and a prediction on one other machine,\n" +
	"from the rates that bench --machine measured on it. Without -c it takes\n" +
	"the default network of bench."

func planCommand(a *app) *cobra.Command {
	var o plan.Options
	var crop, machine string
	var timed bool
	cmd := &cobra.Command{
		Use:   "plan [-c FILE] [--ranks N | --time --machine FILE]",
		Short: "Predict time and memory of a training, here and on a cluster",
		Long:  planLong,
		Example: "  ensemble plan -c train.yaml\n" +
			"  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml\n" +
			"  ensemble plan -c train.yaml --ranks 16 --crop 352x704 --json\n" +
			"  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml --simulate\n" +
			"  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml --scaling\n" +
			"  ensemble plan -c train.yaml --time --machine laptop.json",
		Annotations: annotations("docs/parallel.md, docs/formats/machine.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlags(cmd)
	f := cmd.Flags()
	ranks := f.Uint("ranks", 0, "`NUMBER` of ranks of the job")
	f.StringVar(&machine, "machine", "", "`FILE` that describes the machine (docs/formats/machine.md); with --time that of bench --machine")
	f.StringVar(&crop, "crop", "", "field size, `SIDE` or ROWSxCOLUMNS points (default: the whole grid)")
	f.BoolVar(&timed, "time", false, "predict a training step and a prediction on the machine that bench --machine measured")
	f.BoolVar(&o.Simulate, "simulate", false, "also simulate the best plans, message by message")
	f.BoolVar(&o.Scaling, "scaling", false, "also predict strong and weak scaling from 1 to 4096 ranks")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if timed {
			return planTime(ctx, cmd, src, crop, machine)
		}
		if err := requireFlags(cmd, "config"); err != nil {
			return result{}, err
		}
		if err := checkRanks(cmd, *ranks, machine != "" || o.Simulate || o.Scaling); err != nil {
			return result{}, err
		}
		var err error
		if f.Changed("crop") {
			if o.Crop, err = setup.ParseCrop(crop); err != nil {
				return result{}, withFlag("--crop", err)
			}
		}
		if o.Config, err = config.LoadTrain(*src); err != nil {
			return result{}, err
		}
		if machine != "" {
			if o.Machine, err = config.LoadMachine(machine); err != nil {
				return result{}, err
			}
		}
		o.Ranks, o.Timings = int(*ranks), setup.UserTimings(a.log)
		r, err := plan.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r}, nil
	})
	return cmd
}

// planTime predicts steps on another machine.
func planTime(ctx context.Context, cmd *cobra.Command, src *config.Sources, crop, machine string) (r result, err error) {
	if err := requireFlags(cmd, "machine"); err != nil {
		return r, err
	}
	o := plan.TimeOptions{MachineFile: machine}
	if crop != "" {
		if o.Crop, err = setup.ParseCrop(crop); err != nil {
			return r, withFlag("--crop", err)
		}
	}
	if cmd.Flags().Changed("config") {
		if o.Config, err = config.LoadTrain(*src); err != nil {
			return r, err
		}
	}
	t, err := plan.Time(ctx, o)
	if err != nil {
		return r, err
	}
	return result{data: t}, nil
}

// checkRanks checks --ranks, which other flags need.
//
// Errors: exit 64.
func checkRanks(cmd *cobra.Command, ranks uint, needed bool) error {
	switch given := cmd.Flags().Changed("ranks"); {
	case needed && !given:
		return missingFlagsError(cmd, []string{"ranks"})
	case given && ranks == 0:
		return &exit.Error{Code: exit.Usage, What: "invalid number of ranks: 0", At: "--ranks", Fix: "give 1 or more, or leave --ranks out for a training on this machine"}
	}
	return nil
}
