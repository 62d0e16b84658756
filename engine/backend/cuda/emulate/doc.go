// Package emulate is a device that runs CUDA kernels on the processor: the sources of
// package kernels, compiled by the C++ compiler of the machine with a header that stands
// in for the language. It is there for tests on machines without a GPU, is slow, and is
// stricter than a GPU: memory of the device faults when the program touches it outside of
// kernels, fresh memory holds no numbers, arguments must be of the parameters' types, and
// threads that wait at different barriers end the process.
package emulate
