//go:build cgo && linux

package cpu

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// withoutMask are the attributes of a convolution, or of what holds one, with a filter of which
// all blocks are kept; any others stay as they are.
func withoutMask(attrs any) any {
	switch a := attrs.(type) {
	case op.Conv:
		a.Mask = ""
		return a
	case op.FusedConv:
		a.Mask = ""
		return a
	case op.ConvGrad:
		a.Mask = ""
		return a
	case op.FusedConvGrad:
		a.Mask = ""
		return a
	case op.HaloOp:
		a.Attrs = withoutMask(a.Attrs)
		return a
	}
	return attrs
}

// maskFilterGrad has a kernel of the gradient of a filter that computes it as of a whole one
// write zero where a block is not kept.
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
