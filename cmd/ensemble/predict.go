package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
)

func predictCommand(a *app) *cobra.Command {
	var cycle, deadline, mesh string
	cmd := &cobra.Command{
		Use:   "predict [-c FILE] --run-dir DIR --input FILE... --out DIR",
		Short: "Post-process ensemble forecasts into calibrated products",
		Long: "Post-process ensemble forecasts into calibrated products with a trained model:\n" +
			"mean and spread, quantiles, probabilities of events, and members.\n" +
			"Each initialisation becomes one directory of files with a manifest, published\n" +
			"atomically. A directory in --input expands to the files in it; directories and\n" +
			"quoted patterns are rescanned while the program waits. `members:` in\n" +
			"predict.yaml decides whether predict waits, fails or continues when members are\n" +
			"missing (docs/products.md). Existing products of the same input are kept.\n" +
			"Under mpirun or srun, initialisations are distributed over the ranks; --mesh\n" +
			"distributes each initialisation over several ranks, for very large grids.",
		Example: "  ensemble predict --run-dir runs/a --input fc.grib2 --out products\n" +
			"  ensemble predict --run-dir runs/a --input fc/*.grib2 --out products \\\n" +
			"    --format netcdf,grib2 --products mean,spread,members\n" +
			"  ensemble predict --run-dir runs/a --input fc.grib2 --out products \\\n" +
			"    --quantiles 0.1,0.5,0.9 --probability \"t2m<0degC\" --area 70/-20/30/40\n" +
			"  ensemble predict --run-dir runs/a --input fc.grib2 --init 2026010100 \\\n" +
			"    --out products --json\n" +
			"  ensemble predict -c predict.yaml --input fc --init 2026010100 \\\n" +
			"    --out products --deadline init+6h40m --json\n" +
			"  mpirun -n 8 ensemble predict --run-dir runs/a --input fc/*.grib2 \\\n" +
			"    --out products --mesh \"lat:2 lon:2\"",
		Annotations: annotations("ensemble verify, ensemble train", exit.BadData, exit.NotYet, exit.NoDevice, exit.RankLost, exit.CannotWrite, exit.IO, exit.SaveAndStop),
		Args:        noArgs,
	}
	f := cmd.Flags()
	var flags predictFlags
	flags.bind(a, cmd)
	f.StringVar(&cycle, "init", "", "predict only this initialisation, such as 2026010100")
	f.StringVar(&deadline, "deadline", "", "wait for complete input until this `TIME`: init+6h40m, 06:40Z, +40m or 2026-01-01T06:40Z")
	f.StringVar(&mesh, "mesh", "", "`MESH` of ranks for each initialisation, as train.mesh: \"lat:2 lon:2\"")
	cmd.RunE = a.runJob(func(ctx context.Context, _ []string) (result, error) {
		o, c, err := flags.read()
		if err != nil {
			return result{}, err
		}
		if o.Init, o.Deadline, err = parseInitAndDeadline(cycle, cmp.Or(config.Deadline(deadline), c.Members.Deadline)); err != nil {
			return result{}, err
		}
		o.Mesh, o.Command, o.Timings = mesh, "ensemble "+strings.Join(a.args, " "), setup.UserTimings(a.log)
		o.Records = a.records
		o.Progress = a.progress
		r, err := predict.Run(ctx, o)
		if err != nil {
			return result{}, err
		}
		r.Verbose = a.verbose
		return result{data: map[string]any{"inits": r.Inits, "existing": r.Existing, "degraded": r.Degraded}, shown: r, outputs: r.Outputs, warnings: r.Warnings,
			degraded: r.Degraded > 0}, nil
	})
	return cmd
}

// parseInit parses an initialisation; at names the flag or argument.
//
// Errors: exit 64.
func parseInit(text, at string) (time.Time, error) {
	d, err := config.ParseDate(text)
	if err != nil || d.WholeDay {
		return time.Time{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid initialisation %q", text), At: at, Fix: "write it as 2026010100 or 2026-01-01T00:00Z"}
	}
	return d.Time, nil
}

// parseInitAndDeadline parses the initialisation and the deadline. Empty texts give zero times.
//
// Errors: exit 64, also for a deadline that counts from an initialisation if none is given.
func parseInitAndDeadline(cycle string, deadline config.Deadline) (init, until time.Time, err error) {
	if cycle != "" {
		if init, err = parseInit(cycle, "--init"); err != nil {
			return init, until, err
		}
	}
	if deadline == "" {
		return init, until, nil
	}
	until, err = deadline.Time(init, time.Now())
	switch {
	case errors.Is(err, config.ErrNeedsInit):
		err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("deadline %q without an initialisation", deadline), At: "--deadline", Why: "it counts from the initialisation",
			Fix: "add --init, such as --init 2026010100, or write the deadline as +40m or 2026-01-01T06:40Z"}
	case err != nil:
		err = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid deadline %q", deadline), At: "--deadline", Fix: "write it as init+6h40m, 06:40Z, +40m or 2026-01-01T06:40Z"}
	}
	return init, until, err
}

// predictFlags are the flags that predict and serve share.
type predictFlags struct {
	app                    *app
	cmd                    *cobra.Command
	src                    *config.Sources
	runDir, out, precision string
	input                  *[]string
	sparse                 bool
	threads                *uint
	compute                computeFlags
	publishing             func() []config.Flag
	naming                 func() (config.Naming, error)
	regrid                 func() (task.Interpolation, error)
	overwrite              func() (string, error)
}

func (p *predictFlags) bind(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	p.app, p.cmd, p.src, p.overwrite, p.threads = a, cmd, configFlagsOf(cmd, config.PredictSchema), overwriteFlag(f), threadsFlag(f)
	p.compute.bind(f)
	f.StringVar(&p.runDir, "run-dir", "", "run `DIR` of the model, or a promoted model name")
	p.input = a.filesFlag(f, "input", "forecast `FILE`s (GRIB, NetCDF, Zarr stores) or directories")
	f.StringVarP(&p.out, "out", "o", "", "`DIR` of the products; one subdirectory an initialisation")
	p.publishing = publishingFlags(cmd)
	f.StringVar(&p.precision, "precision", "", "precision of activations: "+strings.Join(config.Precisions, ", ")+" (default: as in training)")
	setChoices(f, "precision", config.Precisions...)
	sparseFlag(f, &p.sparse)
	p.regrid, p.naming = regridFlag(f), namingFlags(f)
}

// read loads the configuration with the flags and returns the options. more are flags for
// further keys.
//
// Errors: exit 64, those of config.LoadPredict.
func (p *predictFlags) read(more ...config.Flag) (o predict.Options, c *config.PredictConfig, err error) {
	p.src.Flags = append(p.publishing(), more...)
	if c, err = config.LoadPredict(*p.src); err != nil {
		return o, c, err
	}
	for _, w := range c.Warnings() {
		p.app.warn(w)
	}
	o = predict.Options{RunDir: cmp.Or(p.runDir, string(c.RunDir)), Out: cmp.Or(p.out, string(c.Out)), Input: *p.input, Version: version.String(), Policy: c.Policy, Warn: p.app.warn,
		Publish: c.Publishing, Precision: p.precision, Threads: int(*p.threads), OnUnrelated: p.app.logIgnored,
		Writer: product.Options{Profile: product.Profile(c.Output.Profile), Longitude: product.Longitudes(c.Output.Longitude), Quantise: c.Output.PackingBits,
			Packing: "grid_" + c.Output.Packing}}
	if o.Input == nil {
		for _, path := range c.Input {
			o.Input = append(o.Input, string(path))
		}
	}
	var missing []string
	for _, flag := range []struct {
		name  string
		given bool
	}{{"run-dir", o.RunDir != ""}, {"input", o.Input != nil}, {"out", o.Out != ""}} {
		if !flag.given {
			missing = append(missing, flag.name)
		}
	}
	if err := missingFlagsError(p.cmd, missing); err != nil {
		return o, c, err
	}
	naming, err := p.naming()
	if err != nil {
		return o, c, err
	}
	o.Policy.Naming = naming.Over(o.Policy.Naming)
	o.Policy.AllowMissingChunks = o.Policy.AllowMissingChunks || p.sparse
	for _, name := range c.Output.Formats {
		o.Formats = append(o.Formats, product.Format(name))
	}
	if o.Precision != "" {
		if err := checkChoice("--precision", []string{o.Precision}, config.Precisions...); err != nil {
			return o, c, err
		}
	}
	if o.Regrid, err = p.regrid(); err != nil {
		return o, c, err
	}
	if o.Device, o.MemoryBytes, o.WorkspaceBytes, err = p.compute.read(); err != nil {
		return o, c, err
	}
	policy, err := p.overwrite()
	o.Overwrite = product.Overwrite(policy)
	return o, c, err
}

// publishingFlags adds the flags that override keys of predict.yaml, and returns a function that
// lists those that are set.
func publishingFlags(cmd *cobra.Command) func() []config.Flag {
	f := cmd.Flags()
	f.StringSlice("products", nil, "`LIST` of products: "+strings.Join(config.ProductNames, ", "))
	f.StringSlice("quantiles", nil, "`LIST` of quantiles, such as 0.1,0.5,0.9")
	f.StringArray("probability", nil, "`EVENT` whose probability is published, such as \"t2m>273.15\", \"t850>7 degC\" or 0degC<t2m<5degC (repeatable)")
	f.StringSlice("format", nil, "file formats: netcdf, grib2, zarr, zarr3 (default netcdf)")
	f.String("longitude", "", "range of longitudes: keep, 0_360 or 180_180 (default keep)")
	f.String("nc-profile", "", "quantiles, events and members in NetCDF: dimensions (xarray) or a variable each (cdo) (default xarray)")
	f.String("packing", "", "packing of GRIB2: simple or ccsds (default simple)")
	f.Int("packing-bits", 0, "`BITS` of packed values, 2 to 16 (default: float32 in NetCDF)")
	f.String("area", "", "restrict products to an area north/west/south/east, such as 70/-20/30/40")
	f.StringSlice("variables", nil, "restrict products to these variables")
	f.StringSlice("levels", nil, "restrict products to these levels, such as 850hPa")
	f.StringSlice("leads", nil, "restrict products to these leads, such as 48h")
	f.String("stations", "", "also publish products at the stations of this `FILE`, CSV or GeoJSON")
	f.String("interpolation", "", "interpolation to stations: bilinear or nearest (default bilinear)")
	f.String("orography", "", "`FILE` with the model orography, for height correction of 2t at stations")
	keys := []struct {
		flag, key string
		text      bool // values are strings, not numbers
	}{
		{"products", "products", true}, {"quantiles", "quantiles", false}, {"probability", "probabilities", true},
		{"format", "output.formats", true}, {"longitude", "output.longitude", true}, {"nc-profile", "output.nc_profile", true},
		{"packing", "output.packing", true}, {"packing-bits", "output.packing_bits", false}, {"area", "output.area", true},
		{"variables", "output.variables", true}, {"levels", "output.levels", true}, {"leads", "output.leads", true},
		{"stations", "output.stations", true}, {"interpolation", "output.interpolation", true}, {"orography", "output.orography", true},
	}
	for _, k := range keys {
		if choices := config.PredictSchema.Choices(k.key); choices != nil {
			setChoices(f, k.flag, choices...)
		}
	}
	return func() []config.Flag {
		var out []config.Flag
		for _, k := range keys {
			flag := f.Lookup(k.flag)
			if !flag.Changed {
				continue
			}
			value := flag.Value.String()
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				words := list.GetSlice()
				for i, w := range words {
					if k.text {
						words[i] = strconv.Quote(w)
					}
				}
				value = "[" + strings.Join(words, ", ") + "]"
			} else if k.text {
				value = strconv.Quote(value)
			}
			out = append(out, config.Flag{Name: "--" + k.flag, Key: k.key, Value: value})
		}
		return out
	}
}
