// Package libraries finds the shared libraries of CUDA. On machines with nothing but a
// driver they may come from Python packages (nvidia-cudnn-cu12 and others). No function
// of a library is called, and Python is not run.
package libraries

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Library is a library that is opened at run time.
type Library struct {
	Name    string
	Files   []string // sonames, newest first
	Enables string   // what the program can do with it

	wheel        string    // directory of its Python package below nvidia/; "" if there is none
	install      string    // name of that package for pip
	companions   string    // pattern of files that must be in the same directory
	cuda         bool      // the major version of a file is that of CUDA
	dependencies []Library // libraries that it opens by name
}

// The libraries.
var (
	// Driver comes with the kernel module of the driver.
	Driver = Library{Name: "CUDA driver", Files: []string{"libcuda.so.1"}, Enables: "any use of a GPU"}
	// NVRTC compiles CUDA C++ at run time.
	NVRTC = Library{Name: "CUDA runtime compiler", Files: []string{"libnvrtc.so.13", "libnvrtc.so.12"}, Enables: "our own kernels on the GPU",
		wheel: "cuda_nvrtc", install: "nvidia-cuda-nvrtc-cu12", companions: "libnvrtc-builtins.so.*", cuda: true}
	// CuBLASLt multiplies matrices for cuDNN.
	CuBLASLt = Library{Name: "cuBLASLt", Files: []string{"libcublasLt.so.13", "libcublasLt.so.12"}, Enables: "convolutions on the GPU, through cuDNN",
		wheel: "cublas", install: "nvidia-cublas-cu12", cuda: true, dependencies: []Library{NVRTC}}
	// CuDNN computes convolutions.
	CuDNN = Library{Name: "cuDNN", Files: []string{"libcudnn.so.9"}, Enables: "convolutions on the GPU",
		wheel: "cudnn", install: "nvidia-cudnn-cu12", companions: "libcudnn_graph.so.9", dependencies: []Library{NVRTC, CuBLASLt}}
	// NCCL communicates between GPUs.
	NCCL = Library{Name: "NCCL", Files: []string{"libnccl.so.2"}, Enables: "training over several GPUs",
		wheel: "nccl", install: "nvidia-nccl-cu12"}
)

// Optional returns the libraries that computing on a GPU needs besides the driver.
func Optional() []Library { return []Library{NVRTC, CuDNN, CuBLASLt, NCCL} }

// driverCUDA is the newest major version of CUDA that the driver supports; 0 before it
// is known.
var driverCUDA atomic.Int32

// SetDriverCUDA sets the major version of CUDA that the driver supports. Find ignores
// newer libraries: the driver does not load their machine code.
func SetDriverCUDA(major int) { driverCUDA.Store(int32(major)) }

// files returns the sonames that can be used with the driver. Before the driver is
// opened all are returned.
func (l Library) files() []string {
	most := int(driverCUDA.Load())
	if !l.cuda || most == 0 {
		return l.Files
	}
	return slices.DeleteFunc(slices.Clone(l.Files), func(name string) bool {
		_, version, _ := strings.Cut(name, ".so.")
		major, err := strconv.Atoi(version)
		return err == nil && major > most
	})
}
