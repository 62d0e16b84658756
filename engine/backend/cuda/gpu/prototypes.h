// What this program uses of the CUDA driver: types, constants and functions, as the
// vendor's cuda.h has them. The test TestHeaders compiles this list against that file.
#pragma once
#include <stddef.h>

#ifdef ENS_CHECK_HEADERS
#include <cuda.h>
#else
typedef int CUresult;
typedef struct CUuuid_st { char bytes[16]; } CUuuid;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUjit_option;
typedef int CUstreamCaptureMode;
#endif

// Names carry the version that a program compiled with the vendor's header would ask for.
#define ENS_CUDA_FUNCTIONS(F) \
	F(cuInit, (unsigned int flags)) \
	F(cuDriverGetVersion, (int *version)) \
	F(cuGetErrorName, (CUresult code, const char **text)) \
	F(cuGetErrorString, (CUresult code, const char **text)) \
	F(cuDeviceGetCount, (int *count)) \
	F(cuDeviceGet, (CUdevice *device, int ordinal)) \
	F(cuDeviceGetName, (char *name, int length, CUdevice device)) \
	F(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
	F(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device)) \
	F(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device)) \
	F(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device)) \
	F(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
	F(cuCtxSetCurrent, (CUcontext context)) \
	F(cuMemGetInfo_v2, (size_t *free, size_t *total)) \
	F(cuMemAlloc_v2, (CUdeviceptr *p, size_t bytes)) \
	F(cuMemFree_v2, (CUdeviceptr p)) \
	F(cuMemHostAlloc, (void **p, size_t bytes, unsigned int flags)) \
	F(cuMemFreeHost, (void *p)) \
	F(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
	F(cuMemsetD8Async, (CUdeviceptr p, unsigned char value, size_t bytes, CUstream stream)) \
	F(cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned int n, CUjit_option *options, void **values)) \
	F(cuModuleUnload, (CUmodule module)) \
	F(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name)) \
	F(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function)) \
	F(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value)) \
	F(cuLaunchKernel, (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **arguments, void **extra)) \
	F(cuStreamCreate, (CUstream *stream, unsigned int flags)) \
	F(cuStreamDestroy_v2, (CUstream stream)) \
	F(cuStreamSynchronize, (CUstream stream)) \
	F(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags)) \
	F(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode)) \
	F(cuStreamEndCapture, (CUstream stream, CUgraph *graph)) \
	F(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	F(cuGraphUpload, (CUgraphExec exec, CUstream stream)) \
	F(cuGraphLaunch, (CUgraphExec exec, CUstream stream)) \
	F(cuGraphDestroy, (CUgraph graph)) \
	F(cuGraphExecDestroy, (CUgraphExec exec)) \
	F(cuEventCreate, (CUevent *event, unsigned int flags)) \
	F(cuEventDestroy_v2, (CUevent event)) \
	F(cuEventRecord, (CUevent event, CUstream stream)) \
	F(cuEventSynchronize, (CUevent event)) \
	F(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

// Functions that older drivers lack and that we can do without.
#define ENS_CUDA_OPTIONAL(F) \
	F(cuFuncGetParamInfo, (CUfunction function, size_t index, size_t *offset, size_t *size))

#define ENS_CUDA_CONSTANTS(C) \
	C(CUDA_ERROR_OUT_OF_MEMORY, 2) \
	C(CUDA_ERROR_DEINITIALIZED, 4) \
	C(CUDA_ERROR_NO_DEVICE, 100) \
	C(CUDA_ERROR_INVALID_IMAGE, 200) \
	C(CUDA_ERROR_NO_BINARY_FOR_GPU, 209) \
	C(CUDA_ERROR_ECC_UNCORRECTABLE, 214) \
	C(CUDA_ERROR_INVALID_PTX, 218) \
	C(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220) \
	C(CUDA_ERROR_CONTAINED, 226) \
	C(CUDA_ERROR_NOT_FOUND, 500) \
	C(CUDA_ERROR_ILLEGAL_ADDRESS, 700) \
	C(CUDA_ERROR_LAUNCH_TIMEOUT, 702) \
	C(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709) \
	C(CUDA_ERROR_ASSERT, 710) \
	C(CUDA_ERROR_HARDWARE_STACK_ERROR, 714) \
	C(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715) \
	C(CUDA_ERROR_MISALIGNED_ADDRESS, 716) \
	C(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717) \
	C(CUDA_ERROR_INVALID_PC, 718) \
	C(CUDA_ERROR_LAUNCH_FAILED, 719) \
	C(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721) \
	C(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810) \
	C(CUDA_ERROR_EXTERNAL_DEVICE, 911) \
	C(CUDA_ERROR_UNKNOWN, 999) \
	C(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) \
	C(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
	C(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) \
	C(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37) \
	C(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41) \
	C(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
	C(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
	C(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
	C(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0) \
	C(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1) \
	C(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
	C(CU_JIT_ERROR_LOG_BUFFER, 5) \
	C(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6) \
	C(CU_MEMHOSTALLOC_PORTABLE, 1) \
	C(CU_STREAM_NON_BLOCKING, 1) \
	C(CU_EVENT_DISABLE_TIMING, 2) \
	C(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define ENS_CONSTANT(name, value) ENS_##name = value,
enum { ENS_CUDA_CONSTANTS(ENS_CONSTANT) };
#undef ENS_CONSTANT

#define ENS_MEMBER(name, parameters) CUresult (*name) parameters;
typedef struct {
	ENS_CUDA_FUNCTIONS(ENS_MEMBER)
	ENS_CUDA_OPTIONAL(ENS_MEMBER)
} ens_cuda;
#undef ENS_MEMBER
