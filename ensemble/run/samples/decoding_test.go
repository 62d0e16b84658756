package samples_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Forecasts and analyses of different folders are decoded by the same children, at most one for each processor.
func TestChildrenReadAllFiles(t *testing.T) {
	f, dir := demotest.Files(t), t.TempDir()
	for _, path := range f.Analyses {
		text, err := os.ReadFile(path)
		runtest.Must(t, err)
		runtest.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o644))
	}
	starts, program := filepath.Join(dir, "starts"), filepath.Join(t.TempDir(), "ensemble-decode")
	runtest.Must(t, os.WriteFile(program, []byte("#!/bin/sh\necho >>"+starts+"\nexec "+testdecoder.Path(t)+"\n"), 0o755))
	t.Setenv(decode.ProgramEnv, program)
	c := demotest.Config(t, f, "data.analyses=["+dir+"/*.nc]")
	forecasts, analyses, err := samples.TrainingFiles(c)
	runtest.Must(t, err)
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	runtest.Must(t, err)
	runtest.Must(t, d.Close())
	text, err := os.ReadFile(starts)
	runtest.Must(t, err)
	if n, most := bytes.Count(text, []byte("\n")), min(runtime.GOMAXPROCS(0), 8); n < 1 || n > most {
		t.Errorf("%d children were started, want at most %d", n, most)
	}
}
