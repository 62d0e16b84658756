// Package cuda knows the NVIDIA GPUs of the machine. It asks the driver's own
// management library through go-nvml, which opens it at run time: a program with
// this package starts and works on machines without any GPU.
package cuda
