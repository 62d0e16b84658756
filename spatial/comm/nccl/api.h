// The part of NCCL 2 that this package uses, with NVIDIA's names: functions with their types,
// constants and structures. The library is opened at run time without its headers, so they are
// declared here; a test compares each with the headers.
#ifndef ENSEMBLE_NCCL_API_H
#define ENSEMBLE_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

// Types by size. The test replaces them by NVIDIA's.
#ifndef ENSEMBLE_VENDOR_TYPES
typedef int32_t ncclResult_t;
typedef int32_t ncclDataType_t;
typedef int32_t ncclRedOp_t;
typedef void *ncclComm_t;
typedef void *cudaStream_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
#endif

#define NCCL_FUNCTIONS(X)                                                                                                   \
	X(ncclResult_t, ncclGetVersion, (int *))                                                                            \
	X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *))                                                                  \
	X(ncclResult_t, ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int))                                           \
	X(ncclResult_t, ncclCommDestroy, (ncclComm_t))                                                                      \
	X(ncclResult_t, ncclCommAbort, (ncclComm_t))                                                                        \
	X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))                                                \
	X(const char *, ncclGetErrorString, (ncclResult_t))                                                                 \
	X(const char *, ncclGetLastError, (ncclComm_t))                                                                     \
	X(ncclResult_t, ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
	X(ncclResult_t, ncclReduceScatter,                                                                                  \
	  (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))                            \
	X(ncclResult_t, ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))            \
	X(ncclResult_t, ncclSend, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                    \
	X(ncclResult_t, ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                          \
	X(ncclResult_t, ncclGroupStart, (void))                                                                             \
	X(ncclResult_t, ncclGroupEnd, (void))

#define NCCL_VALUES(X)           \
	X(ncclSystemError, 2)    \
	X(ncclRemoteError, 6)    \
	X(ncclInProgress, 7)     \
	X(ncclSum, 0)            \
	X(ncclUint8, 1)          \
	X(ncclFloat16, 6)        \
	X(ncclFloat32, 7)        \
	X(ncclBfloat16, 9)

#ifndef ENSEMBLE_VENDOR_TYPES
enum {
#define X(name, value) name = value,
	NCCL_VALUES(X)
#undef X
};
#endif

#endif
