package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

func benchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure steps, predictions, reading and GPUs here",
		Long: "Measure training steps and predictions of the networks on this machine: times,\n" +
			"useful GFLOP/s beside the peak of a matrix product measured in the same run,\n" +
			"peak memory, and the gradient's distance from float64. Flags that take lists\n" +
			"measure every combination. Each case runs in processes of its own.\n\n" +
			"With --parallel training steps of one case on all ranks of the job are measured.\n" +
			"With --check-parallel nothing is timed: a small step (base 8, crop 64, batch 2,\n" +
			"if not given) is trained on one rank and on all ranks of the job, on every mesh\n" +
			"that they can form, and the differences are printed. The bits must be those of\n" +
			"the same mesh with all its parts in one process.",
		Example: "  ensemble bench --base 8 --crop 128\n" +
			"  ensemble bench --json --base 8,32 --crop 64,128,256 --threads 1,2\n" +
			"  ensemble bench --base 8 --crop 128 --trace step.json --movement\n" +
			"  mpirun -n 2 ensemble bench --base 8 --crop 256 --threads 1 --parallel\n" +
			"  mpirun -n 4 ensemble bench --check-parallel\n" +
			"  mpirun -n 2 ensemble bench --check-parallel --mesh \"data:2 lat:2\"",
		Annotations: annotations("docs/performance.md", exit.No, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        unknownCommand,
	}
	b := benchFlags{app: a, cmd: cmd}
	b.bind()
	cmd.RunE = a.runJob(b.run)
	cmd.AddCommand(benchRead(a), benchStore(a), benchDevice(a))
	return cmd
}

// benchFlags are the flags of measurements. Those that describe cases stay as they were given.
type benchFlags struct {
	app                                          *app
	cmd                                          *cobra.Command
	o                                            bench.Options
	model, base, crop, batch, threads, precision string
	depth, multiple, steps, ranks                uint
	operations                                   float64
	mesh, optimizer                              string
	single, parallel, checkRanks, shard          bool
	compute                                      computeFlags
	reporter                                     func() (*progress.Reporter, error)
}

func (b *benchFlags) bind() {
	f := b.cmd.Flags()
	f.StringVar(&b.model, "model", bench.BenchUNet3D, strings.Join(bench.Models, " or "))
	f.StringVar(&b.base, "base", "32", "base widths, a `LIST` such as 8,32")
	f.StringVar(&b.crop, "crop", "128", "sides of the field, a `LIST` such as 64,352x704")
	f.StringVar(&b.batch, "batch", "1", "samples of a step, a `LIST`")
	f.StringVar(&b.threads, "threads", "0", "threads, a `LIST`; 0 takes all that the machine gives")
	f.UintVar(&b.depth, "depth", 0, "levels; 0 means 2, or 1 for "+bench.BenchResNet2D)
	f.StringVar(&b.precision, "precision", "float32", "float32, bf16, bf16_products, f16 or tf32")
	f.Float64Var(&b.operations, "operations", 0, "remove channels until this share of the operations is left; 0 removes none")
	f.UintVar(&b.multiple, "multiple", 8, "with --operations, layers keep a multiple of so many channels")
	b.compute.bind(f)
	f.UintVar(&b.steps, "steps", 0, "measured steps of each; 0 means as --seconds allows")
	f.Float64Var(&b.o.Seconds, "seconds", 3, "time for the steps of each; at least 5 are taken, or 3 of more than 4 s")
	f.StringVar(&b.o.Gradient, "gradient", "auto", "distance from float64: auto (reduces a large case), full or off")
	f.BoolVar(&b.o.Movement, "movement", false, "print what each operation computes and moves")
	f.StringVar(&b.o.Trace, "trace", "", "write one step's timeline to `FILE`, for Perfetto or Chrome")
	f.BoolVar(&b.parallel, "parallel", false, "measure a training step on all ranks of the job")
	f.BoolVar(&b.checkRanks, "check-parallel", false, "compare training on all ranks with training on one")
	f.UintVar(&b.ranks, "ranks", 0, "ranks of these within this process, where no MPI launcher started it")
	f.StringVar(&b.mesh, "mesh", "", "their `MESH`, such as \"data:2 lon:4\", of as many parts as ranks or more; if not given it is chosen, or all are compared")
	f.BoolVar(&b.shard, "shard-optimizer", false, "with --parallel, share the optimizer out among the ranks")
	f.StringVar(&b.optimizer, "optimizer", "sgd", "of --check-parallel: sgd or adam")
	f.BoolVar(&b.single, "one", false, "measure what standard input asks for, in this process")
	f.Lookup("one").Hidden = true // how the command starts its own processes
	b.reporter = b.app.progressFlag(f)
}

func (b *benchFlags) run(ctx context.Context, _ []string) (result, error) {
	if b.single {
		return measureOne(ctx)
	}
	like := bench.Case{Model: b.model, Depth: int(b.depth), Precision: b.precision, Operations: b.operations}
	if b.operations > 0 {
		like.Multiple = int(b.multiple)
	}
	if b.checkRanks {
		if err := checkChoice("--optimizer", []string{b.optimizer}, bench.CheckOptimizers...); err != nil {
			return result{}, err
		}
		return b.checkParallel(ctx, bench.ParallelCheckOptions{Ranks: int(b.ranks), Mesh: b.mesh, Steps: int(b.steps), Optimizer: b.optimizer, Case: like})
	}
	o := b.o
	if err := checkChoice("--gradient", []string{o.Gradient}, "auto", "full", "off"); err != nil {
		return result{}, err
	}
	var err error
	if like.Device, like.MemoryBytes, like.WorkspaceBytes, err = b.compute.read(); err != nil {
		return result{}, err
	}
	if o.Cases, err = b.cases(like); err != nil {
		return result{}, err
	}
	if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) {
		return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%g is no value for --seconds", o.Seconds), At: "the command line", Fix: "give a positive number of seconds"}
	}
	o.Timings = setup.UserTimings(b.app.log)
	if b.parallel {
		return benchOnRanks(ctx, o, bench.RanksOptions{Mesh: b.mesh, Ranks: int(b.ranks), Steps: int(b.steps), ShardOptimizer: b.shard})
	}
	program, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	o.Steps, o.Program = int(b.steps), []string{program, "bench", "--one", "--json"}
	if o.Progress, err = b.reporter(); err != nil {
		return result{}, err
	}
	r, err := bench.Run(ctx, o)
	if err != nil {
		return result{}, err
	}
	var outputs []string
	if o.Trace != "" {
		outputs = append(outputs, o.Trace)
	}
	return result{data: r, outputs: outputs}, nil
}

// measureOne is the process of one measurement: see bench.Options.Program.
func measureOne(ctx context.Context) (result, error) {
	var r bench.Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return result{}, &exit.Error{Code: exit.Usage, What: "standard input asks for no measurement", Why: err.Error(), Fix: "leave out --one"}
	}
	m, err := bench.Measure(ctx, r)
	if err != nil {
		return result{}, err
	}
	return result{data: map[string]any{"measurement": m}}, nil
}

// checkParallel compares ranks; flags that were not given describe a small case.
func (b *benchFlags) checkParallel(ctx context.Context, o bench.ParallelCheckOptions) (result, error) {
	for name, small := range map[string]struct {
		flag *string
		text string
	}{"base": {&b.base, "8"}, "crop": {&b.crop, "64"}, "batch": {&b.batch, "2"}} {
		if !b.cmd.Flags().Changed(name) {
			*small.flag = small.text
		}
	}
	cases, err := b.cases(o.Case)
	if err != nil {
		return result{}, err
	}
	if o.Case, err = singleCase("--check-parallel", cases); err != nil {
		return result{}, err
	}
	r, err := bench.CheckParallel(ctx, o)
	if err != nil {
		return result{}, err
	}
	return result{data: r}, nil
}

// benchOnRanks measures the one case on all ranks.
func benchOnRanks(ctx context.Context, measured bench.Options, o bench.RanksOptions) (result, error) {
	var err error
	if o.Case, err = singleCase("--parallel", measured.Cases); err != nil {
		return result{}, err
	}
	o.Seconds, o.Timings = measured.Seconds, measured.Timings
	r, err := bench.RunOnRanks(ctx, o)
	if err != nil {
		return result{}, err
	}
	return result{data: r}, nil
}

// singleCase is the one case that a flag allows.
func singleCase(flag string, cases []bench.Case) (bench.Case, error) {
	if len(cases) != 1 {
		return bench.Case{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s with %d cases", flag, len(cases)), At: "the command line", Fix: "give one value to each flag"}
	}
	return cases[0], nil
}

// cases gives every combination of the lists, else like the given case.
func (b *benchFlags) cases(like bench.Case) ([]bench.Case, error) {
	var crops []setup.Crop
	for _, word := range strings.Split(b.crop, ",") {
		c, err := setup.ParseCrop(strings.TrimSpace(word))
		if err != nil {
			return nil, withFlag("--crop", err)
		}
		crops = append(crops, c)
	}
	bases, err := parseInts("--base", b.base, 1)
	if err != nil {
		return nil, err
	}
	batches, err := parseInts("--batch", b.batch, 1)
	if err != nil {
		return nil, err
	}
	threads, err := parseInts("--threads", b.threads, 0)
	if err != nil {
		return nil, err
	}
	var all []bench.Case
	for _, base := range bases {
		for _, crop := range crops {
			for _, batch := range batches {
				for _, t := range threads {
					c := like
					c.Base, c.Crop, c.Batch, c.Threads = base, crop, batch, t
					all = append(all, c)
				}
			}
		}
	}
	return all, nil
}

// parseInts reads a list of whole numbers, none below least.
func parseInts(flag, text string, least int) ([]int, error) {
	var all []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < least || n > math.MaxInt32 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no value for %s", word, flag), At: "the command line",
				Why: fmt.Sprintf("it is a list of whole numbers, %d or more", least), Fix: "separate them by commas: " + flag + " 1,2"}
		}
		all = append(all, n)
	}
	return all, nil
}
