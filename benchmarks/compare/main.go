// Command compare runs `ensemble bench` and benchmarks/pytorch.py in turn on the same
// cases and prints their times, memory and gradient errors as Markdown, with ratios.
//
//	go run ./benchmarks/compare -python V/bin/python -base 8,32 -crop 64,128 -threads 1,0
//
// Turns alternate (ours, theirs, ours, …), so that a busy hour hits both; figures are
// medians over the rounds. The first round tries every form of PyTorch, the later
// ones those that can still be the fastest, and the published ones. A form whose
// gradient is further than 5 % from float64 is not counted as best.
//
// Without PyTorch it says so and exits with 0.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// options are the flags.
type options struct {
	ensemble, python, script          string
	model, base, crop, batch, threads string
	precision, forms, out             string
	depth, rounds, steps              int
	seconds                           float64
}

func main() {
	var o options
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	flag.StringVar(&o.ensemble, "ensemble", "bin/ensemble", "the program")
	flag.StringVar(&o.python, "python", python, "a Python that has PyTorch (or the variable PYTHON)")
	flag.StringVar(&o.script, "script", "benchmarks/pytorch.py", "the peer")
	flag.StringVar(&o.model, "model", "unet3d", "unet3d or resnet2d_simple")
	flag.StringVar(&o.base, "base", "8,32", "base widths")
	flag.StringVar(&o.crop, "crop", "64,128", "sides of the field")
	flag.StringVar(&o.batch, "batch", "1", "samples of a step")
	flag.StringVar(&o.threads, "threads", "1,0", "threads; 0 takes all")
	flag.IntVar(&o.depth, "depth", 0, "levels; 0 means 2, or 1 for resnet2d_simple")
	flag.StringVar(&o.precision, "precision", "float32", "of ours, as in ensemble bench; PyTorch's is a matter of its form")
	flag.StringVar(&o.forms, "forms", "all", "forms of PyTorch: all, published, or a list")
	flag.IntVar(&o.rounds, "rounds", 3, "turns of each")
	flag.IntVar(&o.steps, "steps", 0, "measured steps of a turn; 0 means as -seconds allows")
	flag.Float64Var(&o.seconds, "seconds", 3, "time for the steps of a turn")
	flag.StringVar(&o.out, "out", "", "also write the tables to this file, after every case")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// run measures all cases and prints the tables to w; progress goes to log.
func (o options) run(ctx context.Context, w, log io.Writer) error {
	if why := o.withoutTorch(ctx); why != "" {
		fmt.Fprintf(log, "compare: skipped: %s has no PyTorch: %s\n  fix: install it (pip install torch numpy) and name that Python with -python or PYTHON\n", o.python, why)
		return nil
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds %d: at least one is needed", o.rounds)
	}
	t := &tables{rounds: o.rounds, precision: o.precision}
	for _, base := range strings.Split(o.base, ",") {
		for _, crop := range strings.Split(o.crop, ",") {
			for _, batch := range strings.Split(o.batch, ",") {
				for _, threads := range strings.Split(o.threads, ",") {
					c := []string{"--model", o.model, "--base", base, "--crop", crop, "--batch", batch, "--threads", threads, "--depth", fmt.Sprint(o.depth)}
					fmt.Fprintln(log, "compare:", strings.Join(c, " "))
					d, err := o.duel(ctx, c, log)
					if err != nil {
						return err
					}
					t.duels = append(t.duels, d)
					if o.out != "" {
						if err := os.WriteFile(o.out, []byte(t.markdown()), 0o644); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	_, err := io.WriteString(w, t.markdown())
	return err
}

// withoutTorch says why PyTorch cannot be used; empty if it can.
func (o options) withoutTorch(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, o.python, "-c", "import torch").CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1] + " (" + err.Error() + ")")
}

// duel runs the rounds of one case.
func (o options) duel(ctx context.Context, c []string, log io.Writer) (*duel, error) {
	d := &duel{theirs: map[string][]figures{}}
	budget := []string{"--steps", fmt.Sprint(o.steps), "--seconds", fmt.Sprint(o.seconds)}
	forms := o.forms
	for round := range o.rounds {
		gradient := []string{"--gradient", "off"}
		if round == 0 {
			gradient = nil
		}
		out, err := output(ctx, o.ensemble, args([]string{"bench", "--json", "--progress", "none", "--precision", o.precision}, c, budget, gradient)...)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Machine machine
			Results []figures
		}
		if err := json.Unmarshal(out, &answer); err != nil || len(answer.Results) != 1 {
			return nil, fmt.Errorf("%s gave %d results: %v", o.ensemble, len(answer.Results), err)
		}
		ours := answer.Results[0]
		d.machine = answer.Machine
		d.ours = append(d.ours, ours)
		if round == 0 && ours.GradientCase != nil {
			g := ours.GradientCase
			gradient = []string{"--gradient", fmt.Sprintf("%d,%s,%d,%d", g.Base, strings.Trim(string(g.Crop), `"`), g.Batch, g.Depth)}
		}
		out, err = output(ctx, o.python, args([]string{o.script}, c, budget, gradient, []string{"--forms", forms})...)
		if err != nil {
			return nil, err
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var f figures
			if err := dec.Decode(&f); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", o.script, err)
			}
			if _, known := d.theirs[f.Form]; !known {
				d.order = append(d.order, f.Form)
			}
			d.theirs[f.Form] = append(d.theirs[f.Form], f)
			if f.Error != "" {
				fmt.Fprintf(log, "compare: PyTorch's form %s does not run: %s\n", f.Form, f.Error)
			}
		}
		forms = strings.Join(d.contenders(), ",")
		if forms == "" {
			return nil, fmt.Errorf("no form of PyTorch ran")
		}
		fmt.Fprintf(log, "compare: round %d of %d: ours %.1f and %.1f ms\n", round+1, o.rounds, ours.Train, ours.Predict)
	}
	return d, nil
}

// output runs a program and gives its standard output.
func output(ctx context.Context, name string, arg ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, errs.String(), out)
	}
	return out, nil
}

// args joins parts of a command line.
func args(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
