package notebooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/gonb"
	"github.com/ensemble-weather/ensemble/internal/interrupt"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// MaxLines is the most that one call prints.
const MaxLines = 200

// job is one call that takes time: it can be stopped, and says how far it is.
type job struct {
	flag     *interrupt.Flag
	progress *progress.Reporter
	warn     func(string)
}

// runJob runs a job. A stop that left something to go on with is the error of exit 75.
func runJob[T any](work func(ctx context.Context, j job) (T, error)) (T, error) {
	j := job{flag: interrupt.Watch(func() { os.Exit(130) })}
	defer j.flag.Close()
	ctx, cancel := j.flag.Context(context.Background())
	defer cancel()
	lines := &lineLimiter{w: os.Stderr, left: MaxLines - 1}
	j.progress = reporter(lines)
	defer j.progress.Close()
	j.warn = func(text string) { fmt.Fprintln(lines, "ensemble: warning: "+text) }
	x, err := work(ctx, j)
	if errors.Is(err, context.Canceled) && j.flag.Raised() {
		err = j.flag.Err()
	}
	if exit.CodeOf(err) == exit.SaveAndStop {
		e := *answer.Error(err)
		e.Fix = "run the cell again; what was finished is kept"
		err = &e
	}
	return x, err
}

// reporter shows progress in the cell, anew in one place, or as lines.
func reporter(w io.Writer) *progress.Reporter {
	if !gonb.IsCell() {
		return progress.New(w, progress.Auto, 0)
	}
	id := fmt.Sprintf("ensemble-%d-%d", os.Getpid(), time.Now().UnixNano())
	return progress.NewLive(func(task int, text string) {
		// A notebook that is gone must not end a training.
		_ = gonb.Update(fmt.Sprintf("%s-%d", id, task), gonb.Data{gonb.Text: text})
	})
}

// lineLimiter prints as many lines as it may, and says so where it ends.
type lineLimiter struct {
	w    io.Writer
	left int
}

// Write drops what comes after the last line.
func (l *lineLimiter) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if l.left == 0 {
			break
		}
		if _, err := l.w.Write(line); err != nil {
			return 0, err
		}
		if line[len(line)-1] != '\n' {
			continue
		}
		if l.left--; l.left == 0 {
			fmt.Fprintln(l.w, "… no more lines of this call are printed")
		}
	}
	return len(p), nil
}

// must gives x, or ends the cell.
func must[T any](x T, err error) T {
	exitOnError(err)
	return x
}

// exitOnError prints an error as the program does and ends the cell with its exit code. Without
// an error it does nothing.
func exitOnError(err error) {
	if err == nil {
		return
	}
	e := answer.Error(err)
	fmt.Fprintln(&lineLimiter{w: os.Stderr, left: MaxLines - 1}, "ensemble: "+e.Error())
	_ = gonb.Flush() // the cell ends in any case
	os.Exit(int(e.Code))
}
