package runtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// FirstDifference returns the first line in which two texts differ.
func FirstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// WithMembers returns a forecast with members of these numbers, whose fields are those of the members at the
// positions from.
func WithMembers(fc *ensemble.Forecast, numbers []ensemble.Member, from ...int) *ensemble.Forecast {
	out := ensemble.NewForecast(fc.Init, fc.Axes, numbers, fc.Grid)
	for t := range fc.Axes.Leads {
		for m, source := range from {
			for v := range fc.Axes.Variables {
				for l := range fc.Axes.Levels {
					copy(out.Field(t, m, v, l), fc.Field(t, source, v, l))
				}
			}
		}
	}
	return out
}

// WeightsBetween returns the expected interpolation weights.
func WeightsBetween(t *testing.T, from, to *ensemble.Grid, m regrid.Method) *regrid.Weights {
	t.Helper()
	w, err := regrid.New(from, to, regrid.Options{Method: m})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// FirstMessage writes the first field of a GRIB file to a new file.
func FirstMessage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "constant.grib2")
	if err := os.WriteFile(out, text[:binary.BigEndian.Uint64(text[8:16])], 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

// EqualBits reports whether two slices have the same bits, NaN included.
func EqualBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// FlipLastByte inverts the last byte of a file.
func FlipLastByte(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text[len(text)-1]++
	return os.WriteFile(path, text, 0o600)
}

// Losses reads the losses of a run's steps.
func Losses(t *testing.T, runDir string) []float64 {
	t.Helper()
	events, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, e := range events {
		if e.Kind == "step" {
			v, _ := e.Number("loss")
			all = append(all, v)
		}
	}
	return all
}

// FirstInits is an override that restricts a configuration to n initialisations, for networks that are slow.
func FirstInits(f *demo.Files, n int) string {
	return "data.forecasts=[" + strings.Join(f.GRIB2[:n], ", ") + "]"
}

// ModelFiles reads all model files of a run.
func ModelFiles(t *testing.T, runDir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	files, _ := filepath.Glob(filepath.Join(runDir, "model", "*"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = text
	}
	return out
}

// SameModels compares the files of two models.
func SameModels(t *testing.T, what string, want, got map[string][]byte) {
	t.Helper()
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("%s: %s differs", what, name)
		}
	}
}

// Overwrite changes a file that is being read.
func Overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Close())
}

// NewestCheckpoint loads the newest checkpoint of a run.
func NewestCheckpoint(t *testing.T, runDir string) *ckpt.Checkpoint {
	t.Helper()
	c, _, err := ckpt.LoadLatest(filepath.Join(runDir, "checkpoints"))
	if err != nil || c == nil {
		t.Fatalf("no checkpoint: %v", err)
	}
	return c
}

// Digest returns a checksum of the weights in the last checkpoint of a run.
func Digest(t *testing.T, runDir string) string {
	t.Helper()
	c := NewestCheckpoint(t, runDir)
	text, err := os.ReadFile(filepath.Join(c.Dir, "rank-0000.st"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
