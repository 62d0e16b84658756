// Command gpu measures the engine on a GPU: the program that benchmarks/gpu.sh carries to
// a machine with a driver and CUDA libraries, and the one that joins what it and its peer
// found. It needs no other program and no file.
//
//	ensemble-gpu train --case unet3d-2 --base 32 --field 2x352x704 --batch 2
//
// Every command prints one JSON object. Data are made in memory from a seed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// command is one thing to measure.
type command struct {
	name, purpose string
	run           func(ctx context.Context, c *config) (any, error)
}

var commands = []command{
	{"info", "what the machine is: GPU, driver, libraries", info},
	{"conformance", "run the suite of the backends, built as a program of its own", conformance},
	{"agree", "distance of output and gradient from the reference in float64", agree},
	{"peak", "rates of matrix products and of copies on the device", peak},
	{"train", "time, rates and memory of a training step", train},
	{"predict", "time of a prediction from host to host", predict},
	{"memory", "a training step in half of the memory that it takes, beside the whole", memory},
	{"learn", "losses of a short training on the device and on the processor", learn},
	{"report", "join what all parts found, with ratios and targets", report},
}

// config is what the flags say.
type config struct {
	network
	Case      string
	backend   string
	emulated  bool
	seconds   float64 // of measured steps
	steps     int     // measured, or of a training; 0: as seconds allow
	seeds     int
	program   string // with the conformance suite
	run       string // pattern of its tests
	less      bool   // than the batch, if there is no plan with it
	processes int
	limit     float64
	share     float64 // of the memory
	parts     string  // folder
	out       string
}

// Sizes on an emulated device, which is some 1e5 times slower.
var tiny = config{network: network{Base: 1, Stages: 1, Batch: 1, Channels: 3, Field: field{2, 8, 8}}, steps: 2, seeds: 2}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(int(execute(ctx, os.Args[1:], os.Stdout, os.Stderr)))
}

// execute runs one command line.
func execute(ctx context.Context, args []string, out, log io.Writer) exit.Code {
	fail := func(err error) exit.Code {
		fmt.Fprintln(log, "ensemble-gpu:", err)
		return exit.CodeOf(err)
	}
	var cmd *command
	known := ""
	for i := range commands {
		known += "\n  " + fmt.Sprintf("%-12s", commands[i].name) + commands[i].purpose
		if len(args) > 0 && args[0] == commands[i].name {
			cmd = &commands[i]
		}
	}
	if cmd == nil {
		return fail(&exit.Error{Code: exit.Usage, What: "give a command", Why: "known are" + known, Fix: "ensemble-gpu COMMAND --help"})
	}
	c := &config{}
	if err := c.parse(cmd.name, args[1:], log); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exit.OK
		}
		return fail(&exit.Error{Code: exit.Usage, What: "the command line is wrong", Why: err.Error(), Fix: "ensemble-gpu " + cmd.name + " --help", Err: err})
	}
	register()
	answer, err := cmd.run(ctx, c)
	if answer != nil {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		if err := e.Encode(answer); err != nil {
			return fail(err)
		}
	}
	if err != nil {
		return fail(err)
	}
	return exit.OK
}

// parse reads flags; those that were not given are small on an emulated device.
func (c *config) parse(name string, args []string, log io.Writer) error {
	f := flag.NewFlagSet("ensemble-gpu "+name, flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&c.Case, "case", name, "name of the case in the answer")
	f.StringVar(&c.backend, "backend", "cuda", "device: cuda, cpu or ref")
	f.BoolVar(&c.emulated, "emulated", false, "run the kernels of the GPU on the processor, on tiny sizes")
	f.IntVar(&c.Base, "base", 32, "base width of the network")
	f.IntVar(&c.Stages, "stages", unet3d.MaxStages, "poolings of the network")
	f.IntVar(&c.Batch, "batch", 2, "samples of a step")
	f.BoolVar(&c.less, "less", false, "train: take fewer samples where there is no plan with so many")
	f.IntVar(&c.Channels, "channels", 42, "input channels")
	f.TextVar(&c.Field, "field", field{2, 352, 704}, "levels, rows and columns")
	f.StringVar(&c.Precision, "precision", "bf16", "of fields inside the network and of products: bf16, f16, f32, or f32 with products in tf32")
	f.Float64Var(&c.seconds, "seconds", 3, "time of measured steps")
	f.IntVar(&c.steps, "steps", 0, "measured steps (0: as many as --seconds allows), or steps of a training (0: 200)")
	f.IntVar(&c.seeds, "seeds", 3, "trainings on each device")
	f.IntVar(&c.Threads, "threads", runtime.NumCPU(), "of the processor, where it computes")
	f.StringVar(&c.program, "program", "./conformance.test", "conformance suite, built by `go test -c`")
	f.StringVar(&c.run, "run", "^TestValues$/^cuda-1$", "tests of the suite")
	f.IntVar(&c.processes, "processes", 1, "that share the operations of the suite, where --run names a backend")
	f.Float64Var(&c.limit, "limit", 60, "seconds that the suite may take")
	f.Float64Var(&c.share, "share", 0.5, "of the memory that a step takes, to which it is bounded; in tenths")
	f.StringVar(&c.parts, "parts", "", "folder with what the parts found")
	f.StringVar(&c.out, "out", "gpu.json", "file of the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	if c.emulated {
		c.backend = emulatedName
		given := map[string]bool{}
		f.Visit(func(g *flag.Flag) { given[g.Name] = true })
		for name, set := range map[string]func(){
			"base": func() { c.Base = tiny.Base }, "stages": func() { c.Stages = tiny.Stages }, "batch": func() { c.Batch = tiny.Batch }, "channels": func() { c.Channels = tiny.Channels },
			"field": func() { c.Field = tiny.Field }, "steps": func() { c.steps = tiny.steps }, "seeds": func() { c.seeds = tiny.seeds },
		} {
			if !given[name] {
				set()
			}
		}
	}
	if c.steps < 0 || c.seconds <= 0 || c.seeds < 2 || c.Threads < 1 || c.processes < 1 || c.limit <= 0 || !(c.share >= 0.1 && c.share <= 0.9) {
		return errors.New("--seconds, --threads, --processes and --limit are positive, --steps not negative, --seeds at least 2, --share from 0.1 to 0.9")
	}
	return c.check()
}

// emulatedName is what stands in for a GPU.
const emulatedName = "emulated"

// register adds it to the devices of the engine.
func register() {
	if slices.ContainsFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == emulatedName }) {
		return
	}
	engine.Backends = append(engine.Backends, engine.Backend{Name: emulatedName, Purpose: "kernels of the GPU on the processor",
		Open: func(o engine.Options) (backend.Backend, error) {
			b, err := emulated.Open(4 << 30)
			if r, ok := b.(interface{ AllowTF32(bool) }); ok {
				r.AllowTF32(o.Precision == "tf32")
			}
			return b, err
		}})
}
