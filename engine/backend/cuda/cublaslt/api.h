// What this package uses of cuBLASLt, by NVIDIA's names: functions with their types, values
// and structures. The library is opened at run time and its headers are not there, so they
// are written down here once; a test compares each with the headers.
#ifndef ENSEMBLE_CUBLASLT_API_H
#define ENSEMBLE_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
	uint64_t data[8];
} ens_lt_algo;

typedef struct {
	ens_lt_algo algo;
	size_t workspaceSize;
	int32_t state;
	float wavesCount;
	int reserved[4];
} ens_lt_result;

// Types by their size. The test puts NVIDIA's in their place.
#ifndef ENSEMBLE_VENDOR_TYPES
typedef int32_t cublasStatus_t;
typedef int32_t cublasComputeType_t;
typedef int32_t cudaDataType_t;
typedef int32_t cublasLtMatrixLayoutAttribute_t;
typedef int32_t cublasLtMatmulDescAttributes_t;
typedef int32_t cublasLtMatmulPreferenceAttributes_t;
typedef int32_t cublasLtMatmulAlgoConfigAttributes_t;
typedef void *cublasLtHandle_t;
typedef void *cublasLtMatmulDesc_t;
typedef void *cublasLtMatrixLayout_t;
typedef void *cublasLtMatmulPreference_t;
typedef void *cudaStream_t;
typedef ens_lt_algo cublasLtMatmulAlgo_t;
typedef ens_lt_result cublasLtMatmulHeuristicResult_t;
#endif

#define CUBLASLT_FUNCTIONS(X)                                                                                       \
	X(size_t, cublasLtGetVersion, (void))                                                                       \
	X(const char *, cublasLtGetStatusName, (cublasStatus_t))                                                    \
	X(const char *, cublasLtGetStatusString, (cublasStatus_t))                                                  \
	X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *))                                                     \
	X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t))                                                      \
	X(cublasStatus_t, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t))  \
	X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                                        \
	X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                           \
	  (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t))                             \
	X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                               \
	  (cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t, uint64_t, int64_t))                                  \
	X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                                    \
	X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                         \
	  (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void *, size_t))                          \
	X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *))                           \
	X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))                            \
	X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                     \
	  (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t))                 \
	X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                           \
	  (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,                  \
	   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,                         \
	   cublasLtMatmulHeuristicResult_t *, int *))                                                               \
	X(cublasStatus_t, cublasLtMatmulAlgoInit,                                                                   \
	  (cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t,   \
	   cudaDataType_t, int, cublasLtMatmulAlgo_t *))                                                            \
	X(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                                  \
	  (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,                  \
	   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *,                            \
	   cublasLtMatmulHeuristicResult_t *))                                                                      \
	X(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,                                                     \
	  (cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoConfigAttributes_t, const void *, size_t))                     \
	X(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                                     \
	  (const cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoConfigAttributes_t, void *, size_t, size_t *))           \
	X(cublasStatus_t, cublasLtMatmul,                                                                           \
	  (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *, \
	   cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *,                      \
	   cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t))

#define CUBLASLT_VALUES(X)                                 \
	X(CUBLAS_COMPUTE_32F, 68)                          \
	X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)                \
	X(CUBLAS_OP_N, 0)                                  \
	X(CUBLAS_OP_T, 1)                                  \
	X(CUDA_R_32F, 0)                                   \
	X(CUDA_R_16F, 2)                                   \
	X(CUDA_R_16BF, 14)                                 \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)           \
	X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)  \
	X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                  \
	X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                  \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                \
	X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)            \
	X(CUBLASLT_EPILOGUE_DEFAULT, 1)                    \
	X(CUBLASLT_EPILOGUE_RELU, 2)                       \
	X(CUBLASLT_EPILOGUE_BIAS, 4)                       \
	X(CUBLASLT_EPILOGUE_RELU_BIAS, 6)                  \
	X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)               \
	X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)       \
	X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)     \
	X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)   \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)   \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)   \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)   \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)   \
	X(CUBLASLT_ALGO_CONFIG_ID, 0)                      \
	X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)                 \
	X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)              \
	X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)        \
	X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4)           \
	X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5)           \
	X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)               \
	X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7)          \
	X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)

#ifndef ENSEMBLE_VENDOR_TYPES
enum {
#define X(name, value) name = value,
	CUBLASLT_VALUES(X)
#undef X
};
#endif

#endif
