package cuda

// Library is a CUDA library that is opened at run time.
type Library struct {
	Name  string
	Files []string // names the loader is asked for, newest first
	Adds  string   // what it adds to the program
}

// Libraries lists what computing on a GPU needs beside the driver.
var Libraries = []Library{
	{"CUDA runtime compiler", []string{"libnvrtc.so.13", "libnvrtc.so.12"}, "our own kernels on the GPU"},
	{"cuDNN", []string{"libcudnn.so.9"}, "convolutions on the GPU"},
	{"cuBLASLt", []string{"libcublasLt.so.13", "libcublasLt.so.12"}, "matrix products on the GPU"},
	{"NCCL", []string{"libnccl.so.2"}, "training over several GPUs"},
}
