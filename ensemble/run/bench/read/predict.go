package read

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Prediction is the cost of `ensemble predict`, from a cold process to written files.
type Prediction struct {
	MS      benchstats.Times `json:"predict_ms"`
	PeakMiB float64          `json:"peak_mib"` // peak resident memory of the process and its children together, median
}

// predict measures predictions, each in a separate process.
func (o Options) predict(ctx context.Context) (*Prediction, error) {
	out := o.Out
	if out == "" {
		dir, err := filesystem.MkdirTemp("", "ensemble-bench-")
		if err != nil {
			return nil, exit.CreateError(dir, err)
		}
		defer filesystem.RemoveAll(dir)
		out = filepath.Join(dir, "products")
	}
	arg := append(o.Program[1:len(o.Program):len(o.Program)], "predict", "--run-dir", o.RunDir, "--out", out, "--threads", fmt.Sprint(o.Threads), "--overwrite", "always", "--progress", "none")
	for _, f := range o.Files {
		arg = append(arg, "--input", f)
	}
	rounds := min(o.Rounds, 3)
	task := o.Progress.Start("bench", int64(rounds))
	defer task.Done()
	var took []time.Duration
	var peak benchstats.Series
	for i := range rounds {
		t, bytes, err := RunCold(ctx, o.Program[0], arg...)
		if err != nil {
			return nil, err
		}
		took, peak = append(took, t), append(peak, float64(bytes)/(1<<20))
		task.Set(int64(i+1), "")
	}
	return &Prediction{benchstats.TimesOf(took), peak.Median()}, nil
}

// RunCold runs a program to its end and returns its duration and peak memory in bytes.
//
// Errors: exit code and message of the program.
func RunCold(ctx context.Context, name string, arg ...string) (took time.Duration, peak int64, err error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	stop, most := make(chan struct{}), make(chan int64)
	go func() { most <- peakMemory(cmd.Process.Pid, stop) }()
	err = cmd.Wait()
	took = time.Since(begin)
	close(stop)
	peak = <-most
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	if err != nil {
		code := exit.Bug
		if cmd.ProcessState.ExitCode() > 0 {
			code = exit.Code(cmd.ProcessState.ExitCode())
		}
		return 0, 0, &exit.Error{Code: code, What: "the measured program failed", At: strings.Join(cmd.Args, " "), Why: strings.TrimSpace(text.String()), Fix: "run it separately", Err: err}
	}
	// The samples can miss a short peak: use the largest process as lower bound, in KiB.
	return took, max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10), nil
}

// peakMemory returns the peak of the summed resident memory of a process and its children, sampled every few ms.
// Shared memory counts in each process.
func peakMemory(pid int, stop <-chan struct{}) (most int64) {
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

// resident returns the present resident memory of a process and its children.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var all, pages int64
	_, _ = fmt.Sscan(string(text), &all, &pages) // a terminated process has none
	sum := pages * int64(os.Getpagesize())
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, l := range lists {
		text, _ := filesystem.ReadFile(l) // a thread may have terminated
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				sum += resident(child)
			}
		}
	}
	return sum
}
