//go:build cgo && linux

package cpu

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// allKept are the attributes of a convolution, or of what holds one, with a filter of which
// all blocks are kept; any others stay as they are.
func allKept(attrs any) any {
	switch a := attrs.(type) {
	case op.Conv:
		a.Kept = ""
		return a
	case op.Fused:
		a.Kept = ""
		return a
	case op.ConvGrad:
		a.Kept = ""
		return a
	case op.ConvGradFused:
		a.Kept = ""
		return a
	case op.Framed:
		a.Attrs = allKept(a.Attrs)
		return a
	}
	return attrs
}

// keptGradient has a kernel of the gradient of a filter that computes it as of a whole one
// write zero where a block is not kept.
func keptGradient(q backend.Request, k backend.Kernel) backend.Kernel {
	inner, _ := unframed(q)
	a, ok := inner.Attrs.(op.ConvGrad)
	if !ok || a.Kept == "" || !inner.Op.Conv.Is(graph.ConvFilter) || strings.HasPrefix(k.Name, sparseCut) {
		return k
	}
	run, dw := k.Run, q.Out.F32
	k.Run = func() error {
		err := run()
		a.Kept.Clear(dw, a.To)
		return err
	}
	return k
}
