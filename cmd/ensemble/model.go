package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func modelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Take in the weights of published networks",
		Example: "  ensemble model import weights.safetensors --out models/published\n" +
			"  ensemble help model import",
		Annotations: notes("ensemble help model import"),
		Args:        unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.result.printed = true
			return cmd.Help()
		},
	}
	cmd.AddCommand(modelImport(a))
	return cmd
}

func modelImport(a *app) *cobra.Command {
	o := run.ImportOptions{Version: version.Version}
	cmd := &cobra.Command{
		Use:   "import WEIGHTS.safetensors --out DIR",
		Short: "Take in the weights of a published network",
		Long: "Take in the weights of a published network: the 3-D U-Net or resnet2d_simple\n" +
			"under the names of their PyTorch models. Kind and size are found from names\n" +
			"and shapes, and every tensor is checked. A file may bring golden.input and\n" +
			"golden.output along; the network must then give that output. model.start in\n" +
			"the configuration of a training names the weights to start from.",
		Example: "  ensemble model import weights.safetensors --out models/published\n" +
			"  ensemble model import weights.safetensors --out models/published \\\n" +
			"    --apply input.safetensors --to output.safetensors --json",
		Annotations: notes("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        oneArg,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for network.json and weights.safetensors")
	f.StringVar(&o.Apply, "apply", "", "run the network on the tensor \"input\" of this `FILE`")
	f.StringVar(&o.To, "to", "", "safetensors `FILE` for the tensor \"output\"")
	f.BoolVar(&o.Periodic, "periodic", false, "let longitudes wrap around; published networks do not")
	reinject := f.Int("reinject", 0, "input channel that a resnet2d_simple feeds in again (default 28)")
	overwrite := overwriteFlag(f)
	threads := threadsFlag(f)
	cmd.RunE = a.do(func(ctx context.Context, args []string) (result, error) {
		if err := required(cmd, "out"); err != nil {
			return result{}, err
		}
		if f.Changed("apply") != f.Changed("to") {
			return result{}, &exit.Error{Code: exit.Usage, What: "--apply and --to belong together", At: cmd.CommandPath(), Fix: "give both, or neither"}
		}
		if f.Changed("reinject") {
			o.Reinject = reinject
		}
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Weights, o.Threads, o.Overwrite = args[0], int(*threads), run.Overwrite(policy)
		r, err := run.ImportModel(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs, text: func(w io.Writer) error {
			if _, err := fmt.Fprintf(w, "%s: %d trained values\n", &r.Network, r.Network.Parameters); err != nil {
				return err
			}
			if r.Difference != nil {
				if _, err := fmt.Fprintf(w, "gives the output that lies with the weights, relative difference %.2g\n", *r.Difference); err != nil {
					return err
				}
			}
			for _, path := range r.Outputs {
				if _, err := fmt.Fprintln(w, path); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	})
	return cmd
}
