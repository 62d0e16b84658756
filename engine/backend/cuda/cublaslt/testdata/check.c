// Does not compile unless api.h says what NVIDIA's headers say.
#define __CUDA_FP16_H__ // no function here has an argument of these types
#define __CUDA_BF16_H__
#include <cublasLt.h>
#include <stddef.h>
#define ENSEMBLE_VENDOR_TYPES
#include "../api.h"

#define X(result, name, args) result(*const check_##name) args = name;
CUBLASLT_FUNCTIONS(X)
#undef X

#define X(name, value) _Static_assert((int)name == value, #name);
CUBLASLT_VALUES(X)
#undef X

// Enumerations travel as int32_t.
#define X(type) _Static_assert(sizeof(type) == 4, #type);
X(cublasStatus_t)
X(cublasComputeType_t)
X(cudaDataType_t)
X(cublasLtMatrixLayoutAttribute_t)
X(cublasLtMatmulDescAttributes_t)
X(cublasLtMatmulPreferenceAttributes_t)
X(cublasLtMatmulAlgoConfigAttributes_t)
#undef X

_Static_assert(sizeof(ens_lt_algo) == sizeof(cublasLtMatmulAlgo_t), "an algorithm");
_Static_assert(sizeof(ens_lt_result) == sizeof(cublasLtMatmulHeuristicResult_t), "a result");
#define X(field) _Static_assert(offsetof(ens_lt_result, field) == offsetof(cublasLtMatmulHeuristicResult_t, field), #field);
X(algo)
X(workspaceSize)
X(state)
X(wavesCount)
#undef X
