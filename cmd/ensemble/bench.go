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
)

func benchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of training, prediction and reading",
		Long: "Measure training steps and predictions of the networks on this machine: times,\n" +
			"GFLOP/s and the peak of a matrix product measured in the same run, peak memory,\n" +
			"and the error of the gradient against float64. Flags that take lists measure\n" +
			"every combination. Each case runs in a process of its own.\n\n" +
			"--without and --only leave passes of the compiler out and compare with the\n" +
			"whole compiler: ratios of the times of two steps that follow each other.\n\n" +
			"--machine measures rates of this machine. plan --time predicts with them how\n" +
			"long steps take on it, wherever plan runs.\n\n" +
			"--parallel measures training steps of one case on all ranks of the job.\n" +
			"--check-parallel measures no time: it trains a small step (default base 8,\n" +
			"crop 64, batch 2) on one rank and on all ranks of the job, on every mesh that\n" +
			"they can form, and prints the differences. Results must be identical, bit by\n" +
			"bit, to those of the same mesh in one process.",
		Example: "  ensemble bench --base 8 --crop 128\n" +
			"  ensemble bench --json --base 8,32 --crop 64,128,256 --threads 1,2\n" +
			"  ensemble bench --base 8 --crop 128 --without fuse-norms\n" +
			"  ensemble bench --base 8 --crop 128 --trace step.json --op-profile\n" +
			"  ensemble bench --machine > laptop.json\n" +
			"  mpirun -n 2 ensemble bench --base 8 --crop 256 --threads 1 --parallel\n" +
			"  mpirun -n 4 ensemble bench --check-parallel\n" +
			"  mpirun -n 2 ensemble bench --check-parallel --mesh \"data:2 lat:2\"",
		Annotations: annotations("docs/performance.md", exit.No, exit.BadData, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        unknownCommand,
	}
	b := benchFlags{app: a, cmd: cmd}
	b.bind()
	cmd.RunE = a.runJob(b.run)
	cmd.AddCommand(benchRead(a), benchStore(a), benchDevice(a))
	return cmd
}

// benchFlags are the flags of `ensemble bench`. Lists of cases are kept as text until cases
// parses them, and like has what all cases share.
type benchFlags struct {
	app                                          *app
	cmd                                          *cobra.Command
	o                                            bench.Options
	like                                         bench.Case
	base, crop, batch, threads                   string
	depth, multiple, steps, ranks                uint
	density                                      float64
	mesh, optimizer, machine, races              string
	single, parallel, checkRanks, shard, predict bool
	rates                                        bool
	compute                                      computeFlags
	passes                                       passFlags
}

func (b *benchFlags) bind() {
	f := b.cmd.Flags()
	f.StringVar(&b.like.Model, "model", bench.BenchUNet3D, "network: "+strings.Join(bench.Models, " or "))
	f.StringVar(&b.base, "base", "32", "`LIST` of channels of the first stage, such as 8,32")
	f.StringVar(&b.crop, "crop", "128", "`LIST` of field sizes in grid points, such as 64,352x704")
	f.StringVar(&b.batch, "batch", "1", "`LIST` of batch sizes")
	f.StringVar(&b.threads, "threads", "0", "`LIST` of numbers of threads; 0: all available")
	f.UintVar(&b.depth, "depth", 0, "number of levels; 0: 2, or 1 for "+bench.BenchResNet2D)
	f.StringVar(&b.like.Precision, "precision", "float32", "precision of the network: float32, bf16, bf16_products, f16 or tf32")
	f.Float64Var(&b.like.Operations, "operations", 0, "prune channels until this fraction of the FLOPs remains; 0: no pruning")
	f.UintVar(&b.multiple, "channel-multiple", 8, "with --operations, each layer keeps a multiple of this number of channels")
	b.compute.bind(f)
	f.StringVar(&b.like.OffloadFolder, "offload-folder", "", "with --memory, copy activations that do not fit to a file in `FOLDER` where that is faster than recomputation")
	b.passes.bind(f)
	f.UintVar(&b.steps, "steps", 0, "measured steps a case; 0: as many as fit in --seconds")
	f.Float64Var(&b.o.Seconds, "seconds", 3, "time for the steps of a case in seconds; at least 5 steps, or 3 if a step takes more than 4 s")
	f.StringVar(&b.o.Gradient, "gradient", "auto", "error of the gradient against float64: auto (reduces large cases), full or off")
	f.BoolVar(&b.o.Movement, "op-profile", false, "print FLOPs and memory traffic of each operation")
	f.StringVar(&b.o.Trace, "trace", "", "write the timeline of one step to `FILE`, for Perfetto or Chrome; with --parallel of all ranks")
	f.BoolVar(&b.parallel, "parallel", false, "measure a training step on all ranks of the job")
	f.BoolVar(&b.predict, "predict", false, "with --parallel, also predict the step from rates measured on the ranks")
	f.Float64Var(&b.density, "density", 0, "with --parallel, share of the gradients that ranks with different samples sum, as train.compression.density; 0: all")
	f.StringVar(&b.machine, "write-machine", "", "with --parallel, write rates and imbalance of the ranks to `FILE` for plan --machine")
	f.BoolVar(&b.checkRanks, "check-parallel", false, "compare training on all ranks with training on one rank")
	f.UintVar(&b.ranks, "ranks", 0, "number of ranks within this process, without an MPI launcher")
	f.StringVar(&b.mesh, "mesh", "", "`MESH` of the ranks, such as \"data:2 lon:4\", with as many shards as ranks or more (default: chosen, or all compared)")
	f.BoolVar(&b.shard, "shard-optimizer", false, "with --parallel, shard the optimizer state over the ranks")
	f.StringVar(&b.optimizer, "optimizer", "sgd", "optimizer of --check-parallel: sgd or adam")
	f.BoolVar(&b.rates, "machine", false, "measure the rates of this machine in half a minute and print them as JSON for plan --time --machine")
	f.StringVar(&b.races, "races", "", "add times of operations on this machine to `FILE`, for the fit of package engine/cost")
	f.Lookup("races").Hidden = true // used by developers of the cost model
	f.BoolVar(&b.single, "single", false, "measure the case on standard input, in this process")
	f.Lookup("single").Hidden = true // used by the command for its own processes
}

func (b *benchFlags) run(ctx context.Context, _ []string) (result, error) {
	if b.single {
		return measureOne(ctx)
	}
	if b.rates || b.races != "" {
		return b.measureMachine(ctx)
	}
	like := b.like
	like.Depth = int(b.depth)
	if like.Operations > 0 {
		like.Multiple = int(b.multiple)
	}
	without, err := b.passes.read()
	if err != nil {
		return result{}, err
	}
	like.Without = strings.Join(without, ",")
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
	if like.Device, like.MemoryBytes, like.WorkspaceBytes, err = b.compute.read(); err != nil {
		return result{}, err
	}
	if o.Cases, err = b.cases(like); err != nil {
		return result{}, err
	}
	if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) {
		return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %g for --seconds", o.Seconds), At: "the command line", Fix: "give a positive number of seconds"}
	}
	o.Timings = setup.UserTimings(b.app.log)
	if b.parallel {
		return b.benchOnRanks(ctx, o)
	}
	if b.density != 0 || b.machine != "" {
		return result{}, &exit.Error{Code: exit.Usage, What: "--density and --write-machine without --parallel", At: "the command line", Why: "one process has no ranks to measure", Fix: "add --parallel --ranks 2"}
	}
	program, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	o.Steps, o.Program = int(b.steps), []string{program, "bench", "--single", "--json"}
	o.Progress = b.app.progress
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

// measureMachine measures the rates of this machine, or the races of its operations.
func (b *benchFlags) measureMachine(ctx context.Context) (result, error) {
	if b.races != "" {
		return result{outputs: []string{b.races}}, bench.AddRaces(ctx, b.races, b.like.Precision)
	}
	m, err := bench.MeasureMachine(ctx)
	if err != nil {
		return result{}, err
	}
	return result{data: m, text: m.Write}, nil
}

// measureOne measures the one case on standard input: the child process that
// bench.Options.Program starts for each case.
func measureOne(ctx context.Context) (result, error) {
	var r bench.Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return result{}, &exit.Error{Code: exit.Usage, What: "standard input holds no measurement request", Why: err.Error(), Fix: "leave out --single"}
	}
	m, err := bench.Measure(ctx, r)
	if err != nil {
		return result{}, err
	}
	return result{data: map[string]any{"measurement": m}}, nil
}

// checkParallel compares training on all ranks with one rank. Flags that are not given have the
// values of a small case.
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

// benchOnRanks measures one case on all ranks of the job.
func (b *benchFlags) benchOnRanks(ctx context.Context, measured bench.Options) (result, error) {
	o := bench.RanksOptions{Mesh: b.mesh, Ranks: int(b.ranks), Steps: int(b.steps), ShardOptimizer: b.shard, Predict: b.predict, Density: b.density,
		Trace: measured.Trace, MachineFile: b.machine, Seconds: measured.Seconds, Timings: measured.Timings}
	var err error
	if o.Case, err = singleCase("--parallel", measured.Cases); err != nil {
		return result{}, err
	}
	if !(o.Density >= 0 && o.Density <= 1) {
		return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %g for --density", o.Density), At: "the command line", Why: "it is a share of all gradients", Fix: "give a number above 0 and at most 1, such as 0.01"}
	}
	if o.Density > 0 && o.ShardOptimizer {
		return result{}, &exit.Error{Code: exit.Usage, What: "--density with --shard-optimizer", At: "the command line", Why: "each rank keeps a share of dense sums only", Fix: "leave out one of them"}
	}
	r, err := bench.RunOnRanks(ctx, o)
	if err != nil {
		return result{}, err
	}
	var outputs []string
	for _, path := range []string{o.Trace, o.MachineFile} {
		if path != "" {
			outputs = append(outputs, path)
		}
	}
	return result{data: r, outputs: outputs}, nil
}

// singleCase returns the single case that a flag supports.
//
// Errors: exit 64 for several cases.
func singleCase(flag string, cases []bench.Case) (bench.Case, error) {
	if len(cases) != 1 {
		return bench.Case{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s: got %d cases, want one", flag, len(cases)), At: "the command line", Fix: "give one value to each flag"}
	}
	return cases[0], nil
}

// cases returns every combination of the lists; all other properties are those of like.
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

// parseInts parses a comma-separated list of whole numbers, each at least least.
func parseInts(flag, text string, least int) ([]int, error) {
	var all []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < least || n > math.MaxInt32 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %q for %s", word, flag), At: "the command line",
				Why: fmt.Sprintf("want whole numbers, %d or more", least), Fix: "separate numbers by commas: " + flag + " 1,2"}
		}
		all = append(all, n)
	}
	return all, nil
}
