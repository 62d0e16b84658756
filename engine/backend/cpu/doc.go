// Package cpu is the backend for processors. It has four kinds of kernels:
//
//   - convolutions of oneDNN, which is opened at run time (package dnnl),
//   - kernels in C for convolutions and for most other operations (package kern),
//   - loops in Go over the scalar formula of an elementwise operation,
//   - the reference kernel of the operation in float64, if there is no other.
//
// So every operation runs. Values are stored as float32. Fields inside a network may be
// stored in the blocked layout, also as bfloat16 or as uint8 (int8 inference).
//
// table.go lists the kernels of each operation on plain tensors, blocked.go those on
// blocked fields, in order of preference. The first that supports a request runs.
//
// Memory: kernels allocate when they are prepared and never when they run. Intermediate
// results go to one scratch buffer that all kernels share.
//
// Concurrency: a plan runs on one goroutine locked to its thread, because OpenMP keeps
// a team of threads for each thread that enters it.
//
// Determinism: results do not depend on the number of threads.
//
// Without cgo, Open returns an error.
//
//	dev, err := cpu.Open(cpu.Options{Threads: 8, Winograd: true})
//	if err != nil {
//		return err
//	}
//	defer dev.Close()
package cpu
