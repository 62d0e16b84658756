package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/measure"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// predictions measures `ensemble predict` beside pipeline_py.py: the same GRIB files, maps
// and weights, from cold process to written file.
type predictions struct {
	options
	log   io.Writer
	lines []string
	notes []string
}

// combination is a way to run pipeline_py.py.
type combination struct{ reader, form string }

// usual is what a user of Python would write; best is looked for among all.
var usual = combination{"cfgrib", "d3"}

var combinations = []combination{{"eccodes", "fold"}, {"eccodes", "d3"}, {"cfgrib", "fold"}, usual}

// taken is what one run takes: wall time in seconds, and resident memory of the process and
// its children at the peak in MiB.
type taken struct{ seconds, mib measure.Series }

func (t *taken) add(seconds, mib float64) {
	t.seconds, t.mib = append(t.seconds, seconds), append(t.mib, mib)
}

func (p *predictions) measure(ctx context.Context) error {
	script := filepath.Join(p.peers, "pipeline_py.py")
	if _, err := os.Stat(script); err != nil {
		fmt.Fprintf(p.log, "input: predictions are left out: %v (name the folder of the peers with -peers)\n", err)
		return nil
	}
	if out, err := exec.CommandContext(ctx, p.torch, "-c", "import torch, safetensors, dask, eccodes, cfgrib, xarray, netCDF4").CombinedOutput(); err != nil {
		fmt.Fprintf(p.log, "input: predictions are left out: %s lacks something: %s\n", p.torch, out)
		return nil
	}
	for _, packing := range strings.Split(p.packing, ",") {
		data := filepath.Join(p.dir, packing)
		if _, err := os.Stat(filepath.Join(data, "norm.nc")); err != nil {
			if _, err := output(ctx, p.torch, script, "--make", data, "--packing", packing); err != nil {
				return err
			}
		}
		for _, b := range strings.Split(p.base, ",") {
			base, err := strconv.Atoi(b)
			if err != nil {
				return err
			}
			if err := p.duel(ctx, script, data, packing, base); err != nil {
				return err
			}
		}
	}
	return nil
}

// duel lets both sides predict in turn.
func (p *predictions) duel(ctx context.Context, script, data, packing string, base int) error {
	runDir := filepath.Join(data, fmt.Sprintf("run-%d", base))
	if err := makeRun(ctx, p.torch, data, runDir, base); err != nil {
		return err
	}
	ours := &taken{}
	theirs := map[combination]*taken{}
	contenders := slices.Clone(combinations)
	threads := fmt.Sprint(p.threads)
	var inputs []string
	for _, lead := range leads {
		inputs = append(inputs, filepath.Join(data, fmt.Sprintf("lead%03d.grib2", lead)))
	}
	out, peerOut := filepath.Join(data, "products"), filepath.Join(data, "out.nc")
	for round := range min(p.rounds, 3) {
		if err := os.RemoveAll(out); err != nil {
			return err
		}
		arg := append([]string{"predict", "--run-dir", runDir, "--out", out, "--threads", threads, "--progress", "none", "--input"}, inputs[0])
		for _, f := range inputs[1:] {
			arg = append(arg, "--input", f)
		}
		if err := cold(ctx, ours, p.ensemble, arg...); err != nil {
			return err
		}
		for _, c := range contenders {
			if theirs[c] == nil {
				theirs[c] = &taken{}
			}
			if err := cold(ctx, theirs[c], p.torch, script, "--run", data, "--out", peerOut, "--form", c.form, "--base", fmt.Sprint(base),
				"--reader", c.reader, "--threads", threads); err != nil {
				return err
			}
		}
		if round == 0 {
			best := slices.MinFunc(combinations, func(a, b combination) int {
				return int(math.Copysign(1, theirs[a].seconds[0]-theirs[b].seconds[0]))
			})
			contenders = slices.Compact([]combination{best, usual})
			difference, err := compare(ctx, out, peerOut)
			if err != nil {
				return err
			}
			p.notes = append(p.notes, fmt.Sprintf("Base %d, %s: the largest difference of the two spreads is %.2g of the largest.", base, packing, difference))
		}
		fmt.Fprintf(p.log, "input: base %d, %s, round %d: ours %.2f s and %.0f MiB, best of Python %.2f s\n", base, packing, round+1,
			ours.seconds[round], ours.mib[round], theirs[contenders[0]].seconds[len(theirs[contenders[0]].seconds)-1])
	}
	b, u := theirs[contenders[0]], theirs[usual]
	p.lines = append(p.lines, fmt.Sprintf("| %d | %s | %s | %s + %s | %s | **%.2f** | %s | %.2f | %s | %s | **%.2f** |", base, packing, ours.seconds,
		contenders[0].reader, contenders[0].form, b.seconds, b.seconds.Median()/ours.seconds.Median(), u.seconds, u.seconds.Median()/ours.seconds.Median(),
		ours.mib, b.mib, ours.mib.Median()/b.mib.Median()))
	return nil
}

// markdown is the table.
func (p *predictions) markdown() string {
	if len(p.lines) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%d threads, wall time of the process in seconds, resident memory at the peak in MiB.\n\n"+
		"| base | packing | ours s | best of Python | s | ratio | cfgrib + d3 s | ratio | ours MiB | best MiB | ratio |\n"+
		"|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n%s\n\n%s\n", p.threads, strings.Join(p.lines, "\n"), strings.Join(p.notes, "\n"))
}

// cold runs a program to its end.
func cold(ctx context.Context, t *taken, name string, arg ...string) error {
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Env = append(os.Environ(), "OMP_WAIT_POLICY=passive", "PYTHONWARNINGS=ignore")
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, stop) }()
	err := cmd.Wait()
	took := time.Since(begin)
	close(stop)
	most := <-peak
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text.String())
	}
	// What a look in passing missed: the largest process alone, in KiB.
	most = max(most, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	t.add(took.Seconds(), float64(most)/(1<<20))
	return nil
}

// watch gives the most resident memory of a process and its children, which it adds up
// every few milliseconds. Memory that they share counts in each.
func watch(pid int, stop <-chan struct{}) (most int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return most
		case <-tick.C:
			most = max(most, resident(pid))
		}
	}
}

func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var all, pages int64
	fmt.Sscan(string(text), &all, &pages)
	sum := pages * int64(os.Getpagesize())
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				sum += resident(child)
			}
		}
	}
	return sum
}

// compare gives the largest difference of the spreads of both sides, over the largest: the
// network's output is cut off at 0 here and goes through a softplus there.
func compare(ctx context.Context, products, peer string) (float64, error) {
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	files, err := filepath.Glob(filepath.Join(products, "*", "*.nc"))
	if err != nil {
		return 0, err
	}
	spreads := func(paths []string) (map[ensemble.Level][]float32, error) {
		in, err := fio.Open(ctx, paths, fio.Options{Pool: pool})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		out := map[ensemble.Level][]float32{}
		// Of ours the estimate of the full ensemble's spread, not that of the distribution.
		// Long names tell them apart.
		entries := in.Catalogue().Select(func(e ensemble.Entry) bool {
			return e.Variable == "t" && e.Product == ensemble.Spread && (strings.Contains(e.LongName, "full ensemble") || strings.Contains(e.LongName, "from the network"))
		})
		for _, e := range entries {
			f, err := in.ReadOne(ctx, e)
			if err != nil {
				return nil, err
			}
			out[e.Level] = f.Values
		}
		return out, nil
	}
	ours, err := spreads(files)
	if err != nil {
		return 0, err
	}
	theirs, err := spreads([]string{peer})
	if err != nil {
		return 0, err
	}
	var largest, difference float64
	for level, want := range theirs {
		have := ours[level]
		if len(have) != len(want) {
			return 0, fmt.Errorf("%s: %d values in %v, %d in %s", level, len(have), files, len(want), peer)
		}
		for i, y := range want {
			u := max(0, math.Log(math.Expm1(float64(y))))
			difference, largest = max(difference, math.Abs(u-float64(have[i]))), max(largest, u)
		}
	}
	if largest == 0 || len(theirs) == 0 {
		return 0, fmt.Errorf("nothing to compare in %s", peer)
	}
	return difference / largest, nil
}
