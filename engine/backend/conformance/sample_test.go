package conformance

import (
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
	backend.Borrower
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
	dev, err := engine.Backends[0].Open(engine.Options{Threads: 1, ByRule: true})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	on := func() error { return nil }
	s, err := Compare(dev, on)
	if err != nil || len(s.Wrong) > 0 || len(s.Refused) > 0 && dnnl.Version() != "" || s.Operations != len(op.Table) || s.Kernels < s.Operations {
		t.Errorf("%d operations, %d kernels, %v, %q, %q", s.Operations, s.Kernels, err, s.Wrong, s.Refused)
	}
	s, err = Compare(off{dev, dev.(backend.Borrower), "conv3d"}, on)
	if err != nil || len(s.Wrong) == 0 || slices.ContainsFunc(s.Wrong, func(w string) bool { return !strings.HasPrefix(w, "conv3d, case ") }) {
		t.Errorf("with wrong convolutions: %v, %q", err, s.Wrong)
	}
}
