package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Members that are missing at some initialisations only: each initialisation has its own members, and any
// number of ranks gives the same bytes, also with waiting.
func TestPolicyOnRanks(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	want, dir := t.TempDir(), t.TempDir()
	o := predictOptions(t, want)
	o.Input = slices.Clone(o.Input)
	in, err := fio.Open(context.Background(), o.Input, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	past := time.Now().Add(-time.Hour)
	for i, path := range o.Input {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var kept []byte
		for _, e := range input.FileOrder(in.Catalogue().Select(func(e ensemble.Entry) bool { return e.File == path })) {
			if e.Member != ensemble.Member(i) || i == 0 {
				kept = append(kept, text[e.Offset:e.Offset+e.Length]...)
			}
		}
		o.Input[i] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(o.Input[i], kept, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(o.Input[i], past, past); err != nil {
			t.Fatal(err)
		}
	}
	o.Policy = config.Policy{Members: config.InputMembers{OnMissing: "degrade", Poll: 10 * time.Millisecond}}
	alone, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if alone.Inits != 5 || alone.Degraded != 2 { // members 1 and 2 are used, 3 is not, and there is no 4
		t.Errorf("%+v", alone)
	}
	o.Out, o.Deadline = t.TempDir(), time.Now().Add(100*time.Millisecond)
	results, err := predictOnRanks(3, runtest.Background, o)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, o.Out, want)
	for r, res := range results {
		if res.Inits != alone.Inits || res.Degraded != alone.Degraded || !slices.Equal(res.Warnings, alone.Warnings) {
			t.Errorf("rank %d of 3: %+v, alone %+v", r, res, alone)
		}
	}
}

// A request to stop ends waiting at once on all ranks.
func TestWaitIsStopped(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	o.Input, o.Deadline = []string{filepath.Join(t.TempDir(), "never.grib2")}, time.Now().Add(time.Hour)
	o.Policy.Members.Poll = 10 * time.Minute
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := predict.Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("alone: %v", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, stop)
	if _, err := predictOnRanks(2, func(int) context.Context { return stopped }, o); exit.CodeOf(err) != exit.SaveAndStop {
		t.Errorf("two ranks: %v", err)
	}
	if d := time.Since(begin); d > 5*time.Minute { // less than the time between two looks
		t.Errorf("it took %s", d)
	}
}
