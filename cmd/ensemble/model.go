package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
)

func modelCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:   "model",
		Short: "Put models into use, and exchange weights with other programs",
		Example: "  ensemble model promote runs/a --as models/t850\n" +
			"  ensemble model import weights.safetensors --out models/published\n" +
			"  ensemble model export --run-dir runs/a --out exported",
		Annotations: annotations("ensemble help model promote"),
	}, modelPromote(a), modelRollback(a), modelHistory(a), modelImport(a), modelExport(a))
}

func modelExport(a *app) *cobra.Command {
	o := exchange.ExportOptions{Version: version.String()}
	cmd := &cobra.Command{
		Use:   "export --run-dir DIR --out DIR",
		Short: "Write trained networks for other programs",
		Long: "Write the networks of a finished training for other programs: their weights as\n" +
			"safetensors under the names that the PyTorch models of the published networks\n" +
			"have, with golden.input and golden.output to test what was loaded, the maps\n" +
			"beside the network, what standardises the input, and export.json, which says\n" +
			"what the channels hold. `ensemble model import` reads the weights too.",
		Example:     "  ensemble model export --run-dir runs/a --out exported",
		Annotations: annotations("ensemble model import", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.RunDir, "run-dir", "", "`DIR` of a finished training")
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for export.json and the weights")
	overwrite := overwriteFlag(f)
	threads := threadsFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		if err := requireFlags(cmd, "run-dir", "out"); err != nil {
			return result{}, err
		}
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Threads, o.Overwrite = int(*threads), product.Overwrite(policy)
		r, err := exchange.Export(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs, text: func(w io.Writer) error {
			if _, err := fmt.Fprintf(w, "%d × %s: %d trained values each\n", r.Networks, &r.Network, r.Network.Parameters); err != nil {
				return err
			}
			for _, s := range r.Sparsity {
				if _, err := fmt.Fprintln(w, s); err != nil {
					return err
				}
			}
			return printLines(w, r.Outputs)
		}}, nil
	})
	return cmd
}

// printLines prints paths, one a line.
func printLines(w io.Writer, paths []string) error {
	for _, path := range paths {
		if _, err := fmt.Fprintln(w, path); err != nil {
			return err
		}
	}
	return nil
}

func modelImport(a *app) *cobra.Command {
	o := exchange.ImportOptions{Version: version.String()}
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
		Annotations: annotations("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for network.json and weights.safetensors")
	f.StringVar(&o.Apply, "apply", "", "run the network on the tensor \"input\" of this `FILE`")
	f.StringVar(&o.To, "to", "", "safetensors `FILE` for the tensor \"output\"")
	f.BoolVar(&o.Periodic, "periodic", false, "let longitudes wrap around; published networks do not")
	reinject := f.Int("reinject", 0, "input channel that a resnet2d_simple feeds in again (default 28)")
	overwrite := overwriteFlag(f)
	threads := threadsFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
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
		o.Weights, o.Threads, o.Overwrite = args[0], int(*threads), product.Overwrite(policy)
		r, err := exchange.Import(ctx, o)
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
			return printLines(w, r.Outputs)
		}}, nil
	})
	return cmd
}
