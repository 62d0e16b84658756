// Command input measures reading beside the peers that users have, on the same files in
// turn, and prints Markdown with ratios:
//
//	go run ./benchmarks/input -python V/bin/python -torch T/bin/python
//
// Fields of 0.5 degrees are read by this program's children, by a loop of ecCodes in C
// (compiled here), by cfgrib and by netCDF4-python; a GRIB file of 10 000 messages is
// listed; and `ensemble predict` makes a forecast from cold process to written file beside
// the same in PyTorch. The files are made by the scripts of -peers. What a peer lacks is
// named, and its rows are left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// options are the flags.
type options struct {
	ensemble, decoder     string
	peers, python, torch  string
	dir, cases, base, out string
	packing               string
	rounds, threads       int
	members, steps        int
	messages              int
}

func main() {
	var o options
	flag.StringVar(&o.ensemble, "ensemble", "bin/ensemble", "the program")
	flag.StringVar(&o.decoder, "decoder", "bin/ensemble-decode", "its child")
	flag.StringVar(&o.peers, "peers", "../shared/peers", "folder of grib_peers.py and pipeline_py.py")
	flag.StringVar(&o.python, "python", "build/venv/bin/python", "a Python that has eccodes, cfgrib, xarray and netCDF4")
	flag.StringVar(&o.torch, "torch", "", "a Python that also has PyTorch, safetensors and dask; empty has that of -python")
	flag.StringVar(&o.dir, "dir", "", "folder for the input files, kept; empty means one that is removed")
	flag.StringVar(&o.cases, "cases", "grib,netcdf,inventory,predict", "what to measure")
	flag.StringVar(&o.base, "base", "8,32", "base widths of the network that predicts")
	flag.StringVar(&o.packing, "packing", "simple,ccsds", "packings of the forecasts that it predicts from")
	flag.IntVar(&o.rounds, "rounds", 7, "turns of each; of predictions at most 3")
	flag.IntVar(&o.threads, "threads", 2, "threads of predictions on both sides")
	flag.IntVar(&o.members, "members", 5, "members of the fields that are read")
	flag.IntVar(&o.steps, "steps", 8, "their steps")
	flag.IntVar(&o.messages, "messages", 10_000, "messages of the inventory")
	flag.StringVar(&o.out, "out", "", "also write the tables to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "input:", err)
		os.Exit(1)
	}
}

// run measures all cases and prints the tables to w; progress goes to log.
func (o options) run(ctx context.Context, w, log io.Writer) error {
	if o.torch == "" {
		o.torch = o.python
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "input")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	for _, p := range []*string{&o.ensemble, &o.decoder, &o.peers, &o.dir} { // children run in other folders
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if err := os.Setenv("ENSEMBLE_DECODE", o.decoder); err != nil {
		return err
	}
	t := &table{rounds: o.rounds}
	var text strings.Builder
	if slices.ContainsFunc(strings.Split(o.cases, ","), func(c string) bool { return c != "predict" }) {
		if err := o.reading(ctx, t, log); err != nil {
			return err
		}
		text.WriteString(t.markdown())
	}
	if slices.Contains(strings.Split(o.cases, ","), "predict") {
		p := &predictions{options: o, log: log}
		if err := p.measure(ctx); err != nil {
			return err
		}
		text.WriteString(p.markdown())
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// output runs a program and gives its standard output.
func output(ctx context.Context, name string, arg ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Env = append(os.Environ(), "OMP_WAIT_POLICY=passive", "PYTHONWARNINGS=ignore")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return out, nil
}
