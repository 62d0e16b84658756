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
)

// Prediction is what `ensemble predict` takes, from cold process to written files.
type Prediction struct {
	MS      benchstats.Times `json:"predict_ms"`
	PeakMiB float64          `json:"peak_mib"` // resident memory of the process and its children together, the median
}

// predict measures predictions, each in a process of its own.
func (o Options) predict(ctx context.Context) (*Prediction, error) {
	out := o.Out
	if out == "" {
		dir, err := os.MkdirTemp("", "ensemble-bench-")
		if err != nil {
			return nil, exit.CreateError(dir, err)
		}
		defer os.RemoveAll(dir)
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

// RunCold runs a program to its end, and gives its time and its memory at the peak.
//
// Errors: the exit code and the words of the program.
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
		return 0, 0, &exit.Error{Code: code, What: "the program that was to be measured failed", At: strings.Join(cmd.Args, " "), Why: strings.TrimSpace(text.String()), Fix: "run it by itself", Err: err}
	}
	// What a look in passing missed: the largest process alone, in KiB.
	return took, max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10), nil
}

// peakMemory gives the most resident memory of a process and its children, which it adds up
// every few milliseconds. Memory that they share counts in each.
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

// resident is the memory of a process and its children now.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var all, pages int64
	_, _ = fmt.Sscan(string(text), &all, &pages) // a process that has ended has none
	sum := pages * int64(os.Getpagesize())
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, l := range lists {
		text, _ := os.ReadFile(l) // a thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				sum += resident(child)
			}
		}
	}
	return sum
}
