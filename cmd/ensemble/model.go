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
		Short: "Promote models, import and export weights",
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
		Short: "Export trained networks as safetensors",
		Long: "Export trained networks as safetensors, with the parameter names of the PyTorch\n" +
			"models of the published networks. The files also contain golden.input and\n" +
			"golden.output to test a loader, learned maps, and the standardisation of the\n" +
			"input; export.json describes the channels. `ensemble model import` reads the\n" +
			"weights, too.",
		Example:     "  ensemble model export --run-dir runs/a --out exported",
		Annotations: annotations("ensemble model import", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.RunDir, "run-dir", "", "`DIR` of a finished run")
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
			if _, err := fmt.Fprintf(w, "%d × %s: %d parameters each\n", r.Networks, &r.Network, r.Network.Parameters); err != nil {
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

// printLines prints one path a line.
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
		Short: "Import the weights of a published network",
		Long: "Import the weights of a published network, the 3-D U-Net or resnet2d_simple,\n" +
			"with the parameter names of their PyTorch models. Architecture and size are\n" +
			"inferred from names and shapes, and every tensor is checked. If the file has\n" +
			"golden.input and golden.output, the network must reproduce that output.\n" +
			"model.pretrained in the configuration of a training names the imported weights.",
		Example: "  ensemble model import weights.safetensors --out models/published\n" +
			"  ensemble model import weights.safetensors --out models/published \\\n" +
			"    --apply input.safetensors --to output.safetensors --json",
		Annotations: annotations("ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for network.json and weights.safetensors")
	f.StringVar(&o.Apply, "apply", "", "apply the network to the tensor \"input\" of this safetensors `FILE`")
	f.StringVar(&o.To, "to", "", "output safetensors `FILE` of --apply, tensor \"output\"")
	f.BoolVar(&o.Periodic, "periodic", false, "use periodic padding in longitude; published networks do not")
	reinject := f.Int("reinject", 0, "input channel that resnet2d_simple feeds in again (default 28)")
	overwrite := overwriteFlag(f)
	threads := threadsFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		if f.Changed("apply") != f.Changed("to") {
			return result{}, &exit.Error{Code: exit.Usage, What: "--apply and --to must be given together", At: cmd.CommandPath(), Fix: "give both, or neither"}
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
			if _, err := fmt.Fprintf(w, "%s: %d parameters\n", &r.Network, r.Network.Parameters); err != nil {
				return err
			}
			if r.Difference != nil {
				if _, err := fmt.Fprintf(w, "reproduces golden.output, relative difference %.2g\n", *r.Difference); err != nil {
					return err
				}
			}
			return printLines(w, r.Outputs)
		}}, nil
	})
	return cmd
}
