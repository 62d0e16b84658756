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

// MaxLines is the maximum number of lines that a call prints.
const MaxLines = 200

// job is the context of a long call: the interrupt flag, the progress output and the warnings.
type job struct {
	flag     *interrupt.Flag
	progress *progress.Reporter
	warn     func(string)
}

// runJob runs a job. It returns an error with exit code 75 if the job was interrupted and can be
// continued.
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
		e.Fix = "run the cell again; finished steps are not repeated"
		err = &e
	}
	return x, err
}

// reporter returns the progress output: an updated display in the cell, or lines outside of a
// notebook.
func reporter(w io.Writer) *progress.Reporter {
	if !gonb.IsCell() {
		return progress.New(w, progress.Auto, 0)
	}
	id := fmt.Sprintf("ensemble-%d-%d", os.Getpid(), time.Now().UnixNano())
	return progress.NewLive(func(task int, text string) {
		// An error is ignored, because a closed notebook must not end a training.
		_ = gonb.Update(fmt.Sprintf("%s-%d", id, task), gonb.Data{gonb.Text: text})
	})
}

// lineLimiter writes a limited number of lines, then a note that further lines are omitted.
type lineLimiter struct {
	w    io.Writer
	left int
}

// Write implements io.Writer. It discards lines after the limit.
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
			fmt.Fprintln(l.w, "… further lines of this call are omitted")
		}
	}
	return len(p), nil
}

// exitOnError prints an error in the format of the program and ends the cell with its exit code.
// It does nothing if err is nil. In a declaration the error names the command that removes it.
func exitOnError(err error) {
	if err == nil {
		return
	}
	e := answer.Error(err)
	if d, ok := findDeclaration(); ok && !errors.As(err, new(failedDeclaration)) {
		c := *e
		c.Fix += "; " + d.remove()
		e = &c
	}
	fmt.Fprintln(&lineLimiter{w: os.Stderr, left: MaxLines - 1}, "ensemble: "+e.Error())
	_ = gonb.Flush() // an error is ignored, because the cell ends anyway
	os.Exit(int(e.Code))
}
