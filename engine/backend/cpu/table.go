//go:build cgo && linux

package cpu

import "github.com/ensemble-weather/ensemble/engine/backend"

// table names the implementations of each operation, preferred ones first. One
// that does not serve a request returns a Kernel without Run.
var table = []struct {
	op      string
	prepare func(b *Backend, q backend.Request) (backend.Kernel, error)
}{
	{"conv3d", convForward},
	{"conv3d_fused", convForward},
	{"conv3d_grad_data", convData},
	{"conv3d_grad_filter", convFilter},
}
