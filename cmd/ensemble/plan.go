package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func planCommand(a *app) *cobra.Command {
	var o plan.Options
	var crop, machine string
	cmd := &cobra.Command{
		Use:   "plan -c FILE --ranks N",
		Short: "Predict how a training step spreads over many ranks",
		Long: "Predict how a training step spreads over many ranks, without them: the best\n" +
			"mesh, with its changes where small fields are cut otherwise than large ones, as\n" +
			"text for train.mesh, the distribution of each layer, the time of a step, memory\n" +
			"of a rank, what halos, statistics and gradients cost and what of it is hidden,\n" +
			"and what every mesh without changes would cost. All of it is predicted by a\n" +
			"model of costs; nothing is trained and no field is read. Without --crop the grid\n" +
			"is that of the forecast files. Without --machine the machine is that of\n" +
			"train.machine; without both, nodes are like this one, whose rates are measured,\n" +
			"and the network is assumed.",
		Example: "  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml\n" +
			"  ensemble plan -c train.yaml --ranks 16 --crop 352x704 --json\n" +
			"  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml --play\n" +
			"  ensemble plan -c train.yaml --ranks 64 --machine machine.yaml --scaling",
		Annotations: annotations("docs/parallel.md, docs/formats/machine.md", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlags(cmd)
	f := cmd.Flags()
	ranks := f.Uint("ranks", 0, "ranks of the job, a `NUMBER`")
	f.StringVar(&machine, "machine", "", "description of the machine, a `FILE` (docs/formats/machine.md)")
	f.StringVar(&crop, "crop", "", "field of `SIDE` or ROWSxCOLUMNS points instead of the whole grid")
	f.BoolVar(&o.Simulate, "play", false, "also play the step of that mesh on a virtual cluster")
	f.BoolVar(&o.Scaling, "scaling", false, "also predict strong and weak scaling from 1 to 4096 ranks")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := requireFlags(cmd, "config", "ranks"); err != nil {
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
