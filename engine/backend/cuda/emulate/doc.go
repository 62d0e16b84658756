// Package emulate is a device that runs CUDA kernels on the host, for tests on machines
// without GPU. The sources of package kernels are compiled by the C++ compiler of the
// machine, with a header that defines the language extensions of CUDA.
//
// It is slow, and stricter than a GPU: memory of the device faults when the program
// accesses it outside of kernels; new memory contains NaN; arguments must have the
// exact types of the parameters; threads that wait at different barriers end the
// process.
package emulate
