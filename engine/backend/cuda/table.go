package cuda

import "github.com/ensemble-weather/ensemble/engine/backend"

// prepare makes the kernel of a request; one that does not serve it gives a Kernel without
// Run and Place, and the next is asked.
type prepare func(b *Backend, q backend.Request) (backend.Kernel, error)

// table names the kernels of each operation, preferred ones first. Operations with a
// scalar formula, and chains of them, are made by chain.go from the formulas of
// kernels/formulas.cuh.
var table = map[string][]prepare{
	"reorder": {reorder},
}

// lasts names the ways of operations that take or give fields with their channels last.
var lasts = map[string]wayRule{}
