package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/device"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func benchDevice(a *app) *cobra.Command {
	var names []string
	var purposes strings.Builder
	for _, p := range device.Parts() {
		names = append(names, p.Name)
		fmt.Fprintf(&purposes, "  %-12s %s\n", p.Name, p.Purpose)
	}
	cmd := &cobra.Command{
		Use:   "device PART",
		Short: "Measure the engine on a GPU, one benchmark at a time",
		Long: "Measure the engine on a GPU, one benchmark at a time:\n\n" + purposes.String() +
			"\nThe network is the 3-D U-Net on random numbers; fields are padded to a multiple\n" +
			"of its strides. Default sizes are those of the published case, and tiny with\n" +
			"--device emulated, which runs the GPU kernels on the processor.\n" +
			"benchmarks/gpu.sh runs all benchmarks, each with a time limit, in turn with\n" +
			"PyTorch.",
		Example: "  ensemble bench device info\n" +
			"  ensemble bench device train --base 32 --field 2x352x704 --batch 2\n" +
			"  ensemble bench device memory --memory-fraction 0.5 --json\n" +
			"  ensemble bench device train --device emulated",
		Annotations: annotations("docs/performance.md, ensemble bench", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg, ValidArgs: names,
	}
	b := benchDeviceFlags{cmd: cmd}
	b.bind()
	cmd.RunE = a.runJob(b.run)
	return cmd
}

// benchDeviceFlags are the flags of `ensemble bench device`; many apply to one benchmark only.
type benchDeviceFlags struct {
	cmd     *cobra.Command
	o       device.Options
	field   string
	threads *uint
}

func (b *benchDeviceFlags) bind() {
	f, o := b.cmd.Flags(), &b.o
	f.StringVar(&o.Case, "case", "", "name of the case in the result; \"\": the name of the benchmark")
	f.StringVar(&o.Backend, "device", "cuda", "device: cuda, cpu, ref or "+device.Emulated)
	setChoices(f, "device", "cuda", "cpu", "ref", device.Emulated)
	f.IntVar(&o.Base, "base", 0, "channels of the first stage; 0: 32")
	f.IntVar(&o.Stages, "stages", 0, "number of pooling stages; 0: 5")
	f.IntVar(&o.Batch, "batch", 0, "batch size; 0: 2")
	f.BoolVar(&o.SmallerBatch, "smaller-batch", false, "train: reduce the batch until the step fits in memory")
	f.IntVar(&o.Channels, "channels", 0, "input channels; 0: 42")
	f.StringVar(&b.field, "field", "", "levels x rows x columns of the fields; \"\": 2x352x704")
	f.StringVar(&o.Precision, "precision", "bf16", "precision of activations and matrix products: bf16, f16, f32 or tf32")
	setChoices(f, "precision", "bf16", "f16", "f32", "tf32")
	f.Float64Var(&o.Seconds, "seconds", 3, "time of measured steps in seconds")
	f.IntVar(&o.Steps, "steps", 0, "measured steps; 0: as many as fit in --seconds. learn: steps of a training; 0: 200")
	f.IntVar(&o.Seeds, "seeds", 0, "learn: trainings on each device; 0: 3")
	b.threads = threadsFlag(f)
	f.StringVar(&o.Program, "program", "./conformance.test", "conformance: `FILE` built by go test -c")
	f.StringVar(&o.Tests, "run", "^TestValues$/^cuda-1$", "conformance: `PATTERN` of the tests to run")
	f.IntVar(&o.Processes, "processes", 1, "conformance: number of processes, if --run names a backend")
	f.Float64Var(&o.Limit, "time-limit", 60, "conformance: time limit in seconds")
	f.Float64Var(&o.Share, "memory-fraction", 0.5, "memory: limit as a fraction of the memory of a step, in tenths")
	f.StringVar(&o.Parts, "results", "", "report: `DIR` with the results of the benchmarks")
	f.StringVar(&o.Out, "out", "gpu.json", "report: output `FILE`")
}

func (b *benchDeviceFlags) run(ctx context.Context, args []string) (result, error) {
	o := b.o
	if b.field != "" {
		if err := o.Field.UnmarshalText([]byte(b.field)); err != nil {
			return result{}, err
		}
	}
	o.Threads = int(*b.threads)
	measured, err := device.Measure(ctx, args[0], o)
	r := result{data: measured}
	if err == nil && args[0] == device.Report {
		r.outputs = []string{o.Out}
	}
	return r, err
}
