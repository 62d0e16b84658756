// Package emulated opens the CUDA backend over an emulated device, for tests of plans and
// jobs on machines without a GPU.
package emulated
