// Package libraries finds the libraries of CUDA on machines that have a driver and nothing
// else installed by an administrator: the files may be those that Python packages bring.
// Nothing in a library is called here, and no Python is run.
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
	Enables string   // what it adds to the program

	wheel        string    // folder of its Python package below nvidia/; "" if none has it
	install      string    // that package, as pip calls it
	companions   string    // pattern of files that must lie in the same folder
	cuda         bool      // the major version of a file is that of CUDA
	dependencies []Library // which it opens by name itself
}

// The libraries.
var (
	// Driver comes with the kernel's module and is the only one of the system.
	Driver = Library{Name: "CUDA driver", Files: []string{"libcuda.so.1"}, Enables: "any use of a GPU"}
	// NVRTC compiles CUDA C++ at run time.
	NVRTC = Library{Name: "CUDA runtime compiler", Files: []string{"libnvrtc.so.13", "libnvrtc.so.12"}, Enables: "our own kernels on the GPU",
		wheel: "cuda_nvrtc", install: "nvidia-cuda-nvrtc-cu12", companions: "libnvrtc-builtins.so.*", cuda: true}
	// CuBLASLt multiplies matrices for cuDNN.
	CuBLASLt = Library{Name: "cuBLASLt", Files: []string{"libcublasLt.so.13", "libcublasLt.so.12"}, Enables: "convolutions on the GPU, through cuDNN",
		wheel: "cublas", install: "nvidia-cublas-cu12", cuda: true, dependencies: []Library{NVRTC}}
	// CuDNN convolves.
	CuDNN = Library{Name: "cuDNN", Files: []string{"libcudnn.so.9"}, Enables: "convolutions on the GPU",
		wheel: "cudnn", install: "nvidia-cudnn-cu12", companions: "libcudnn_graph.so.9", dependencies: []Library{NVRTC, CuBLASLt}}
	// NCCL sends between GPUs.
	NCCL = Library{Name: "NCCL", Files: []string{"libnccl.so.2"}, Enables: "training over several GPUs",
		wheel: "nccl", install: "nvidia-nccl-cu12"}
)

// Optional lists what computing on a GPU needs beside the driver.
func Optional() []Library { return []Library{NVRTC, CuDNN, CuBLASLt, NCCL} }

// driverCUDA is the newest major version of CUDA that the driver serves; 0 before it is known.
var driverCUDA atomic.Int32

// SetDriverCUDA says which major version of CUDA the driver serves. Find leaves out what is
// newer: its machine code does not load.
func SetDriverCUDA(major int) { driverCUDA.Store(int32(major)) }

// files are the names that can be used with the driver.
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
