//go:build cgo && linux

package cpu

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// withoutMask returns the attributes of a convolution without its block mask, as if the
// filter were dense. Other attributes are returned unchanged.
//
// Layouts and costs are chosen for dense filters: masks change during pruning, and a
// plan must not.
func withoutMask(attrs any) any { return op.WithMask(attrs, "") }

// maskFilterGrad makes a kernel of a filter's gradient write zeros for masked blocks.
// Sparse variants do so themselves; dense variants compute the gradient of all blocks.
func maskFilterGrad(q backend.Request, k backend.Kernel) backend.Kernel {
	inner, _ := withoutHalo(q)
	a, ok := inner.Attrs.(op.ConvGrad)
	if !ok || a.Mask == "" || !inner.Op.Conv.Is(graph.ConvFilter) || strings.HasPrefix(k.Name, sparsePrefix) {
		return k
	}
	run, dw := k.Run, q.Out.F32
	k.Run = func() error {
		err := run()
		a.Mask.Clear(dw, a.To)
		return err
	}
	return k
}
