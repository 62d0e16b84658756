// Package gpu is a device on an NVIDIA GPU, over the driver and the runtime compiler. Both
// are opened at run time through prototypes of our own: no header of CUDA is needed to
// build, and a program with this package starts on machines without a GPU.
//
// All work of a device goes to one stream of the primary context, which libraries of the
// vendor share. What runs there fails later than it was asked for; the error then comes
// from whatever asks next, names the last call, and marks the device as lost, since the
// driver does no more work in that context. With CUDA_LAUNCH_BLOCKING=1 in the environment
// each call waits, and the error names the right one.
package gpu
