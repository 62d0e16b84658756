package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func dataCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "data",
		Short:       "Prepare the data of trainings",
		Example:     "  ensemble data prepare -c train.yaml --out store\n  ensemble help data prepare",
		Annotations: notes("ensemble help data prepare"),
		Args:        unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.result.printed = true
			return cmd.Help()
		},
	}
	cmd.AddCommand(dataPrepare(a))
	return cmd
}

func dataPrepare(a *app) *cobra.Command {
	o := run.PrepareOptions{Version: version.Version}
	var workers uint
	cmd := &cobra.Command{
		Use:   "prepare -c FILE [--out DIR]",
		Short: "Write the forecasts and analyses of a training into a store",
		Long: "Write the forecasts and analyses of a training into a sample store: decoded\n" +
			"once, checked, with checksums, in the order in which trainings read. The data\n" +
			"section of the configuration says what to take. A command that was stopped or\n" +
			"killed goes on where it was when it is given again; the result is the same to\n" +
			"the byte. A training reads the store where data.store names it, and with f32\n" +
			"gives the bits that it gives from the files. bf16 and int16 take half of the\n" +
			"space; docs/formats/store.md states their errors.",
		Example: "  ensemble data prepare -c train.yaml --out store\n" +
			"  ensemble data prepare -c train.yaml --out store --storage int16 --memory 4GiB\n" +
			"  ensemble train -c train.yaml --set data.store=store --run-dir runs/a\n" +
			"  ensemble inspect --stats store",
		Annotations: notes("ensemble help train, docs/formats/store.md", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	src := configFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` of the store; data.store if not given")
	f.StringVar(&o.Storage, "storage", run.Storages()[0], strings.Join(run.Storages(), ", "))
	f.UintVar(&workers, "workers", 0, "shards that are written at once; 0 means one a processor")
	memory := sizeFlag(f, "memory", "bound of fields and buffers of all workers, a `SIZE` (default 1GiB)")
	shard := sizeFlag(f, "shard-size", "`SIZE` of a shard, at least one start (default 256MiB)")
	overwrite := overwriteFlag(f)
	reporter := a.progressFlag(f)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) (result, error) {
		if err := required(cmd, "config"); err != nil {
			return result{}, err
		}
		if err := oneOf("--storage", []string{o.Storage}, run.Storages()...); err != nil {
			return result{}, err
		}
		policy, err := overwrite()
		if err != nil {
			return result{}, err
		}
		o.Overwrite, o.Workers = policy == "always", int(workers)
		if o.Memory, err = memory(); err != nil {
			return result{}, err
		}
		if o.ShardSize, err = shard(); err != nil {
			return result{}, err
		}
		if o.Config, err = config.LoadTrain(*src); err != nil {
			return result{}, err
		}
		if o.Out == "" {
			if o.Out = string(o.Config.Data.Store); o.Out == "" {
				return result{}, required(cmd, "out")
			}
		}
		if o.Progress, err = reporter(); err != nil {
			return result{}, err
		}
		defer o.Progress.Close()
		for _, w := range o.Config.Warnings() {
			a.warn(w)
		}
		o.Warn = a.warn
		r, err := run.Prepare(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs, warnings: r.Warnings, told: true, text: func(w io.Writer) error {
			if r.Complete {
				_, err := fmt.Fprintf(w, "%s: already complete\n", r.Out)
				return err
			}
			_, err := fmt.Fprintf(w, "%s: %d starts, %d bytes in %d shards", r.Out, r.Starts, r.Bytes, r.Shards)
			if err == nil && r.Kept > 0 {
				_, err = fmt.Fprintf(w, ", %d of them made before", r.Kept)
			}
			if err == nil && r.Missing > 0 {
				_, err = fmt.Fprintf(w, "; %d values are missing", r.Missing)
			}
			if err == nil {
				_, err = fmt.Fprintln(w)
			}
			return err
		}}, nil
	})
	return cmd
}
