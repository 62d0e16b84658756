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
		Short: "Measure what the engine reaches on a GPU, part by part",
		Long: "Measure what the engine reaches on a GPU, one part at a time:\n\n" + purposes.String() +
			"\nThe network is the 3-D U-Net on random numbers; sides that do not divide are\n" +
			"padded. Sizes that are not given are those of the published case, and tiny on\n" +
			"--device emulated, which runs the kernels of the GPU on the processor.\n" +
			"benchmarks/gpu.sh runs all parts, each within a limit of time, in turn with\n" +
			"PyTorch.",
		Example: "  ensemble bench device info\n" +
			"  ensemble bench device train --base 32 --field 2x352x704 --batch 2\n" +
			"  ensemble bench device memory --share 0.5 --json\n" +
			"  ensemble bench device train --device emulated",
		Annotations: annotations("docs/performance.md, ensemble bench", exit.No, exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneArg, ValidArgs: names,
	}
	b := benchDeviceFlags{cmd: cmd}
	b.bind()
	cmd.RunE = a.runJob(b.run)
	return cmd
}

// benchDeviceFlags are the flags of a part.
type benchDeviceFlags struct {
	cmd     *cobra.Command
	o       device.Options
	field   string
	threads *uint
}

func (b *benchDeviceFlags) bind() {
	f, o := b.cmd.Flags(), &b.o
	f.StringVar(&o.Case, "case", "", "name of the case in the answer; \"\" is that of the part")
	f.StringVar(&o.Backend, "device", "cuda", "what computes: cuda, cpu, ref or "+device.Emulated)
	setChoices(f, "device", "cuda", "cpu", "ref", device.Emulated)
	f.IntVar(&o.Base, "base", 0, "base width of the network; 0 means 32")
	f.IntVar(&o.Stages, "stages", 0, "its poolings; 0 means 5")
	f.IntVar(&o.Batch, "batch", 0, "samples of a step; 0 means 2")
	f.BoolVar(&o.SmallerBatch, "less", false, "train: take fewer samples where there is no plan with so many")
	f.IntVar(&o.Channels, "channels", 0, "input channels; 0 means 42")
	f.StringVar(&b.field, "field", "", "levels, rows and columns; \"\" means 2x352x704")
	f.StringVar(&o.Precision, "precision", "bf16", "of fields inside the network and of products: bf16, f16, f32, or tf32")
	setChoices(f, "precision", "bf16", "f16", "f32", "tf32")
	f.Float64Var(&o.Seconds, "seconds", 3, "time of measured steps")
	f.IntVar(&o.Steps, "steps", 0, "measured steps; 0 means as --seconds allows. learn: of a training; 0 means 200")
	f.IntVar(&o.Seeds, "seeds", 0, "learn: trainings on each device; 0 means 3")
	b.threads = threadsFlag(f)
	f.StringVar(&o.Program, "program", "./conformance.test", "conformance: the `FILE` that `go test -c` built")
	f.StringVar(&o.Tests, "run", "^TestValues$/^cuda-1$", "conformance: `PATTERN` of its tests")
	f.IntVar(&o.Processes, "processes", 1, "conformance: share the operations among so many, where --run names a backend")
	f.Float64Var(&o.Limit, "limit", 60, "conformance: seconds that it may take")
	f.Float64Var(&o.Share, "share", 0.5, "memory: bound it to this share of what a step takes; in tenths")
	f.StringVar(&o.Parts, "parts", "", "report: `DIR` with what the parts found")
	f.StringVar(&o.Out, "out", "gpu.json", "report: `FILE` that it is written to")
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
