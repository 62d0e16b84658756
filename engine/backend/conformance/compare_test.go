package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// off is a backend with one operation whose first value is wrong by a part in 1000.
type off struct {
	backend.Backend
	backend.ScratchSetter
	op string
}

func (b off) Prepare(q backend.Request) (backend.Kernel, error) {
	k, err := b.Backend.Prepare(q)
	if run := k.Run; err == nil && q.Op.Name == b.op {
		k.Run = func() error {
			err := run()
			q.Out.F32[0] += 1e-3 * (1 + q.Out.F32[0])
			return err
		}
	}
	return k, err
}

// TestCompare: a whole backend is right, and one wrong operation is named.
func TestCompare(t *testing.T) {
	dev, err := engine.Backends[0].Open(engine.Options{Device: engine.Device{Threads: 1}, Numerics: engine.Numerics{UseHeuristics: true}})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	on := func() error { return nil }
	s, err := Compare(dev, on)
	for _, r := range s.Refused { // none where the library is here
		if !errors.Is(r, dnnl.ErrUnavailable) {
			t.Error(r)
		}
	}
	t.Logf("%d kernels, %d of them need oneDNN", s.Kernels, len(s.Refused))
	if err != nil || len(s.Wrong) > 0 || s.Operations != len(op.Table) || s.Kernels < s.Operations {
		t.Errorf("%d operations, %d kernels, %v, %q, %q", s.Operations, s.Kernels, err, s.Wrong, s.Refused)
	}
	s, err = Compare(off{dev, dev.(backend.ScratchSetter), "conv3d"}, on)
	if err != nil || len(s.Wrong) == 0 || slices.ContainsFunc(s.Wrong, func(w string) bool { return !strings.HasPrefix(w, "conv3d, case ") }) {
		t.Errorf("with wrong convolutions: %v, %q", err, s.Wrong)
	}
}

// TestCompareWithoutOneDNN: if the library cannot be opened, all other kernels are still
// correct, and missing ones have a reason.
func TestCompareWithoutOneDNN(t *testing.T) {
	hidden := t.TempDir()
	for _, name := range []string{"libdnnl.so", "libdnnl.so.2", "libdnnl.so.3"} { // found first, and no libraries
		if err := os.WriteFile(filepath.Join(hidden, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestCompare$", "-test.v")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+hidden)
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`, [1-9]\d* of them need oneDNN|no device`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
