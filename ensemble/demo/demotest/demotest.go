// Package demotest provides a small synthetic data set and a training configuration for tests.
package demotest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// made is the folder of the generated data set, or empty.
var made string

// small configures the data set of all tests of a package: 20 initialisation times every four weeks
// over all seasons, with few members.
var small = sync.OnceValues(func() (*demo.Files, error) {
	dir, err := os.MkdirTemp("", "ensemble-demo-")
	if err != nil {
		return nil, err
	}
	made = dir
	shared := os.Getenv("ENSEMBLE_TEST_DEMO")
	if shared == "" {
		return write(dir)
	}
	// Tests write into the folder. Each package therefore has its own copy of the generated files.
	if err := os.MkdirAll(shared, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(shared, "lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	done := filepath.Join(shared, "data")
	if _, err := os.Stat(done); errors.Is(err, fs.ErrNotExist) {
		partial, err := os.MkdirTemp(shared, "partial-")
		if err != nil {
			return nil, err
		}
		if _, err := write(partial); err != nil {
			return nil, err
		}
		if err := os.Rename(partial, done); err != nil {
			return nil, err
		}
	}
	if err := os.CopyFS(dir, os.DirFS(done)); err != nil {
		return nil, err
	}
	return filesIn(dir)
})

// write generates the data set.
func write(dir string) (*demo.Files, error) {
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	cfg := demo.Config{Inits: 20, Interval: 28 * 24 * time.Hour, Members: 4}
	return demo.Write(context.Background(), cfg, dir, demo.GRIB2|demo.NetCDF, demo.Encoder{Pool: pool}, nil)
}

// filesIn returns the files of an existing data set.
func filesIn(dir string) (f *demo.Files, err error) {
	f = new(demo.Files)
	for pattern, list := range map[string]*[]string{"demo_fc_*.grib2": &f.GRIB2, "demo_fc_*.nc": &f.NetCDF, "demo_an_*.nc": &f.Analyses} {
		if *list, err = filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(*list) == 0 {
			return nil, fmt.Errorf("no %s in %s: %w", pattern, dir, err)
		}
	}
	return f, nil
}

// Files returns the paths of the data set: 4 members, lead times to 48 h.
func Files(t *testing.T) *demo.Files {
	t.Helper()
	testdecoder.Path(t)
	f, err := small()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Remove removes the files of the data set. A TestMain without Main must call it at the end.
func Remove() {
	if made != "" {
		os.RemoveAll(made)
	}
}

// Main runs the tests of a package and then removes the data set. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	Remove()
	os.Exit(code)
}

// Config returns a configuration for a training of about one second. It has only the cheapest baseline;
// tests add others if needed.
func Config(t *testing.T, f *demo.Files, set ...string) *config.TrainConfig {
	t.Helper()
	dir := filepath.Dir(f.GRIB2[0])
	analyses := "  analyses: [" + dir + "/demo_an_*.nc]\n"
	if slices.Contains(set, "model.head=spread") {
		analyses = "" // not needed
	}
	target := "  target_lead: 48h\n"
	if slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, "data.target_leads=") }) {
		target = ""
	}
	split := "{fractions: {train: 0.7, validation: 0.15}}"
	if slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, "data.split.train.") }) { // by dates
		split = "{}"
	}
	text := fmt.Sprintf(`version: 1
data:
  forecasts: [%[1]s/demo_fc_*.grib2]
%[2]s  members: {use: 3, full: 4, sampling: random}
  leads: [0h, 24h, 48h]
%[3]s  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa]}]
  split: %[4]s
model: {base: 2, stages: 1, dropout: 0.1}
baselines: [climatology]
train: {epochs: 4, batch_size: 4, learning_rate: 0.003, loss: {kind: crps, spread: 1}, threads: 1, networks: 2, early_stop: {patience: 0}}
`, dir, analyses, target, split)
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
