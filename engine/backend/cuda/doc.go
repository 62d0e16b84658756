// Package cuda is the backend for NVIDIA GPUs, and the inventory and monitor of the
// GPUs of a machine.
//
// Kernels are CUDA C++ of our own (package kernels), compiled at run time by NVRTC for
// the GPU that is present. Convolutions choose between these and plans of cuDNN, if
// that is installed. Operations without a kernel run their reference kernel on the
// host.
//
// Layout: fields inside a network have their channels last, [N D H W C] with C padded
// to a multiple of 8, in float32, bfloat16 or float16. All other values are plain
// float32.
//
// Order: all work goes to one CUDA stream. The caller continues while the GPU works
// (device.Device).
//
// All libraries, the driver included, are opened at run time (package libraries): a
// program with this package starts and works on machines without GPU. Inspect and Watch
// use NVML through go-nvml.
//
//	dev, err := cuda.Open(cuda.Options{TF32: true})
//	if err != nil {
//		return err // exit code 69: no GPU, driver or NVRTC
//	}
//	defer dev.Close()
package cuda
