// Package emulated opens the CUDA backend on an emulated device, for tests of plans and
// jobs on machines without GPU.
package emulated
