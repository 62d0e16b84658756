package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/protocol"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
)

func dataCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:         "data",
		Short:       "Prepare training data",
		Example:     "  ensemble data prepare -c train.yaml --out store\n  ensemble data request ens10\n  ensemble help data prepare",
		Annotations: annotations("ensemble help data prepare"),
	}, dataPrepare(a), dataRequest(a), dataSynthesize(a))
}

func dataPrepare(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prepare -c FILE [--out DIR]",
		Short: "Write training data into a sample store",
		Long: "Write training data into a sample store: the forecasts and analyses of the data\n" +
			"section of a configuration, decoded once, checked, with checksums, in the order\n" +
			"in which training reads them. An interrupted command resumes when it is run\n" +
			"again; the result is identical to the byte. Training reads the store if\n" +
			"data.store names it; with storage f32 results are bit-identical to those from\n" +
			"the files. bf16 and int16 take half of the space; docs/formats/store.md states\n" +
			"their errors.",
		Example: "  ensemble data prepare -c train.yaml --out store\n" +
			"  ensemble data prepare -c train.yaml --out store --storage int16 --memory 4GiB\n" +
			"  ensemble data prepare -c train.yaml --out store --protocol ens10\n" +
			"  ensemble train -c train.yaml --set data.store=store --run-dir runs/a\n" +
			"  ensemble inspect --stats store",
		Annotations: annotations("ensemble help train, docs/formats/store.md", exit.BadData, exit.NotYet, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	p := prepareFlags{app: a, cmd: cmd, o: samples.PrepareOptions{Version: version.String(), Warn: a.warn}}
	p.bind()
	cmd.RunE = a.runJob(p.run)
	return cmd
}

// prepareFlags are the flags of `ensemble data prepare`.
type prepareFlags struct {
	app           *app
	cmd           *cobra.Command
	o             samples.PrepareOptions
	src           *config.Sources
	workers       uint
	protocol      string
	memory, shard func() (int64, error)
	overwrite     func() (string, error)
}

func (p *prepareFlags) bind() {
	f := p.cmd.Flags()
	p.src, p.overwrite = configFlags(p.cmd), overwriteFlag(f)
	f.StringVarP(&p.o.Out, "out", "o", "", "`DIR` of the store (default: data.store)")
	f.StringVar(&p.o.Storage, "storage", samples.StorageNames()[0], "storage of values: "+strings.Join(samples.StorageNames(), ", "))
	setChoices(f, "storage", samples.StorageNames()...)
	f.StringVar(&p.protocol, "protocol", "", "`PROTOCOL` whose initialisations must all be present: "+strings.Join(protocolfile.Names(), ", ")+", or a file")
	f.UintVar(&p.workers, "workers", 0, "shards written in parallel; 0: one a processor")
	p.memory = sizeFlag(f, "memory", "memory limit of all workers, a `SIZE` (default 1GiB)")
	p.shard = sizeFlag(f, "shard-size", "`SIZE` of a shard, at least one initialisation (default 256MiB)")
}

// read checks the flags and fills the options.
//
// Errors: exit 64, those of config.LoadTrain and protocolfile.Load.
func (p *prepareFlags) read() error {
	if err := requireFlags(p.cmd, "config"); err != nil {
		return err
	}
	if err := checkChoice("--storage", []string{p.o.Storage}, samples.StorageNames()...); err != nil {
		return err
	}
	policy, err := p.overwrite()
	if err != nil {
		return err
	}
	p.o.Overwrite, p.o.Workers = policy == "always", int(p.workers)
	if p.o.Memory, err = p.memory(); err != nil {
		return err
	}
	if p.o.ShardSize, err = p.shard(); err != nil {
		return err
	}
	if p.o.Config, err = config.LoadTrain(*p.src); err != nil {
		return err
	}
	if p.protocol != "" {
		if p.o.Protocol, err = protocolfile.Load(p.protocol); err != nil {
			return err
		}
	}
	if p.o.Out = cmp.Or(p.o.Out, string(p.o.Config.Data.Store)); p.o.Out == "" {
		return requireFlags(p.cmd, "out")
	}
	p.o.Progress = p.app.progress
	return err
}

func (p *prepareFlags) run(ctx context.Context, _ []string) (result, error) {
	if err := p.read(); err != nil {
		return result{}, err
	}
	for _, w := range p.o.Config.Warnings() {
		p.app.warn(w)
	}
	r, err := samples.Prepare(ctx, p.o)
	if err != nil {
		return result{}, err
	}
	return result{data: r, outputs: r.Outputs, warnings: r.Warnings, logged: true}, nil
}

// exactlyOneProtocol checks that exactly one protocol is given.
func exactlyOneProtocol(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("got %d protocols, want one", len(args)), At: cmd.CommandPath(),
		Fix: "give " + strings.Join(protocolfile.Names(), ", ") + ", or the path of a file"}
}

func dataRequest(a *app) *cobra.Command {
	var o protocol.RequestOptions
	var machine string
	cmd := &cobra.Command{
		Use:   "request PROTOCOL [--out DIR]",
		Short: "Describe a protocol's data and write download requests",
		Long: "Describe a protocol's data: files with their sizes, sizes of sample stores,\n" +
			"memory and time to prepare them, with -c the time of a training, and the terms\n" +
			"of use. --out writes one download request a file: for MARS (hindcasts) and the\n" +
			"Climate Data Store (analyses). Nothing is downloaded; all sizes and times are\n" +
			"estimates.",
		Example: "  ensemble data request ens10\n" +
			"  ensemble data request ens10 --out requests --disk-gb-s 0.5\n" +
			"  ensemble data request ens10 -c experiments/ens10/z500.yaml --ranks 16 \\\n    --machine machine.yaml",
		Annotations: annotations("docs/experiments.md, ensemble help plan", exit.No, exit.NoDevice, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneProtocol,
	}
	src := configFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` for the requests (default: none are written)")
	f.Float64Var(&o.DiskGBs, "disk-gb-s", 1, "read rate of the archive in GB/s")
	ranks := f.Uint("ranks", 1, "`NUMBER` of ranks of the training of -c")
	f.StringVar(&machine, "machine", "", "`FILE` that describes the machine (docs/formats/machine.md)")
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		var err error
		if o.Protocol, err = protocolfile.Load(args[0]); err != nil {
			return result{}, err
		}
		if o.DiskGBs <= 0 {
			return result{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid value %g for --disk-gb-s", o.DiskGBs), At: "--disk-gb-s", Fix: "give a rate above 0 GB/s"}
		}
		if len(src.Files) > 0 {
			o.Plan = &plan.Options{Ranks: int(*ranks), Timings: setup.UserTimings(a.log)}
			if o.Plan.Config, err = config.LoadTrain(*src); err != nil {
				return result{}, err
			}
			if machine != "" {
				if o.Plan.Machine, err = config.LoadMachine(machine); err != nil {
					return result{}, err
				}
			}
		}
		r, err := protocol.Request(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs}, nil
	})
	return cmd
}

func dataSynthesize(a *app) *cobra.Command {
	o := protocol.SynthesizeOptions{Version: version.String()}
	cmd := &cobra.Command{
		Use:   "synthesize PROTOCOL --out DIR",
		Short: "Write synthetic data in the layout of a protocol",
		Long: "Write synthetic data in the layout of a protocol: the same file names, GRIB\n" +
			"messages, members, leads and hindcast dates, with fields of the program's own\n" +
			"atmosphere model. Use it to test a workflow before the real data are available.\n" +
			"Scores on synthetic data do not apply to any forecasting centre.",
		Example: "  ensemble data synthesize ens10 --out archive --grid 16x32 --years 1998-2001 \\\n    --dates 4\n" +
			"  ensemble data synthesize ens5-mini --out mini",
		Annotations: annotations("docs/experiments.md, ensemble demo", exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        exactlyOneProtocol,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "out", "o", "", "`DIR` of the archive")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of all random numbers")
	part := protocolSubsetFlags(f)
	threads := threadsFlag(f)
	cmd.RunE = a.runJob(func(ctx context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		var err error
		if o.Protocol, err = part(args[0]); err != nil {
			return result{}, err
		}
		o.Progress = a.progress
		o.Threads = int(*threads)
		r, err := protocol.Synthesize(ctx, o)
		if err != nil {
			return result{}, err
		}
		return result{data: r, outputs: r.Outputs}, nil
	})
	return cmd
}

// protocolSubsetFlags adds the flags that select a subset of a protocol, and returns a function that
// loads the subset of the named protocol.
func protocolSubsetFlags(f *pflag.FlagSet) func(name string) (*protocolfile.Config, error) {
	grid := f.String("grid", "", "coarser grid, ROWSxCOLUMNS (default: that of the protocol)")
	years := f.String("years", "", "range of years, FIRST-LAST (default: all)")
	dates := f.Uint("dates", 0, "number of calendar days, spread over the year; 0: all")
	members := f.Uint("members", 0, "number of members; 0: all")
	return func(name string) (*protocolfile.Config, error) {
		p, err := protocolfile.Load(name)
		if err != nil {
			return nil, err
		}
		var first, last int
		if *years != "" {
			if n, err := fmt.Sscanf(*years+" ", "%d-%d ", &first, &last); err != nil || n != 2 {
				return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid range of years %q", *years), At: "--years", Fix: "give the first and the last year, such as 1998-2001"}
			}
		}
		var size setup.Crop
		if *grid != "" {
			if size, err = setup.ParseCrop(*grid); err != nil {
				return nil, withFlag("--grid", err)
			}
		}
		return p.Subset(first, last, int(*dates), size.Height, size.Width, int(*members))
	}
}
