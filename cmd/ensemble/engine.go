package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func engineCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:   "engine",
		Short: "Inspect the compiler of training steps and predictions",
		Example: "  ensemble engine passes\n" +
			"  ensemble engine explain -c train.yaml --html plan.html",
		Annotations: annotations("ensemble help engine explain"),
	}, enginePasses(a), engineExplain(a))
}

func enginePasses(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "passes",
		Short:       "List the compiler passes in order",
		Example:     "  ensemble engine passes\n  ensemble engine passes --json",
		Annotations: annotations("ensemble engine explain"),
		Args:        noArgs,
		RunE: a.runJob(func(context.Context, []string) (result, error) {
			passes := explain.Passes()
			return result{data: map[string]any{"passes": passes}, shown: passes}, nil
		}),
	}
}

func engineExplain(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain -c FILE",
		Short: "Show how the compiler transforms a network",
		Long: "Show how the compiler transforms a network: the graph before and after each\n" +
			"pass, with FLOPs, bytes moved, minimum memory and the changes of the pass; then\n" +
			"the execution plan, with class, shape, kernel, FLOPs, bytes, time bound and\n" +
			"memory offset of every operation. The plan is that of `ensemble train` with this\n" +
			"file in one process (--memory and --workspace replace train.memory and\n" +
			"train.workspace, --without and --only train.without_passes), or with\n" +
			"--mode predict that of `ensemble predict`. Nothing is trained and no field is\n" +
			"read; without --crop the grid is that of the forecast files. Sizes are in MiB.\n" +
			"Time bounds follow from the peak rates, which are measured if not given; unknown\n" +
			"kernel times are measured, too.",
		Example: "  ensemble engine explain -c train.yaml\n" +
			"  ensemble engine explain -c train.yaml --mode predict --html plan.html\n" +
			"  ensemble engine explain -c train.yaml --crop 128 --pass fuse\n" +
			"  ensemble engine explain -c train.yaml --memory 2GiB --workspace 64MiB\n" +
			"  ensemble engine explain -c train.yaml --without fuse,fuse-norms\n" +
			"  ensemble engine explain -c train.yaml --dump-after add-gradients\n" +
			"  ensemble engine explain -c train.yaml --program-graph step.json",
		Annotations: annotations("ensemble engine passes", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	e := explainFlags{app: a, cmd: cmd}
	e.bind()
	cmd.RunE = a.runJob(e.run)
	return cmd
}

// explainFlags are the flags of `ensemble engine explain`.
type explainFlags struct {
	app          *app
	cmd          *cobra.Command
	o            explain.Options
	src          *config.Sources
	crop         string
	flops, bytes float64 // peak rates, GFLOP/s and GB/s; 0: measured
	threads      *uint
	compute      computeFlags
	passes       passFlags
}

func (e *explainFlags) bind() {
	f := e.cmd.Flags()
	e.src, e.threads = configFlags(e.cmd), threadsFlag(f)
	e.compute.bind(f)
	e.passes.bind(f)
	f.StringVar(&e.o.Mode, "mode", "train", "compiled step: train or predict")
	f.StringVar(&e.crop, "crop", "", "field size, `SIDE` or ROWSxCOLUMNS points (default: the whole grid)")
	f.StringVar(&e.o.Pass, "pass", "", "show only this `PASS`, with all values that it changed")
	f.StringVar(&e.o.DumpAfter, "dump-after", "", "print the graph after this `PASS` as text")
	f.StringVar(&e.o.RunDir, "run-dir", "", "run `DIR` of this configuration: without the channels it pruned")
	f.StringVar(&e.o.HTML, "html", "", "write a page with figures to `FILE`, and the graph for Graphviz with extension .dot")
	f.StringVar(&e.o.ProgramGraph, "program-graph", "", "write operations and values of the plan as a ProGraML graph to `FILE` (JSON)")
	f.Float64Var(&e.flops, "peak-gflops", 0, "peak rate of the machine in GFLOP/s (default: measured)")
	f.Float64Var(&e.bytes, "peak-gbs", 0, "memory bandwidth in GB/s (default: measured)")
}

func (e *explainFlags) run(ctx context.Context, _ []string) (result, error) {
	if err := requireFlags(e.cmd, "config"); err != nil {
		return result{}, err
	}
	o, f := e.o, e.cmd.Flags()
	if err := checkChoice("--mode", []string{o.Mode}, "train", "predict"); err != nil {
		return result{}, err
	}
	var err error
	if f.Changed("crop") {
		if o.Crop, err = setup.ParseCrop(e.crop); err != nil {
			return result{}, withFlag("--crop", err)
		}
	}
	if o.Device, o.MemoryBytes, o.WorkspaceBytes, err = e.compute.read(); err != nil {
		return result{}, err
	}
	if o.Without, err = e.passes.read(); err != nil {
		return result{}, err
	}
	if f.Changed("device") {
		e.src.Set = append(e.src.Set, "train.device="+o.Device)
	}
	if *e.threads > 0 {
		e.src.Set = append(e.src.Set, fmt.Sprintf("train.threads=%d", *e.threads))
	}
	if o.Config, err = config.LoadTrain(*e.src); err != nil {
		return result{}, err
	}
	o.Threads, o.Peaks.FLOPs, o.Peaks.Bytes = int(*e.threads), e.flops*1e9, e.bytes*1e9
	o.Timings = setup.UserTimings(e.app.log)
	r, err := explain.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	out := result{data: r, outputs: r.Outputs}
	if r.Graph != "" {
		out.text = func(w io.Writer) error {
			_, err := io.WriteString(w, r.Graph)
			return err
		}
	}
	return out, nil
}
