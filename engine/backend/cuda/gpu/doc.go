// Package gpu is a device on an NVIDIA GPU, through the CUDA driver API and NVRTC. Both
// libraries are opened at run time with prototypes of our own: no CUDA header is needed
// to build, and a program with this package starts on machines without GPU.
//
// All work goes to one stream of the primary context, which libraries such as cuDNN
// share. A failure on the GPU appears later than the call that caused it: the error
// comes from the next call, names the last one, and marks the device as lost, because
// the driver accepts no more work in that context. With CUDA_LAUNCH_BLOCKING=1 in the
// environment every call waits, and the error names the right one.
//
// Source: NVIDIA, CUDA Driver API.
package gpu
