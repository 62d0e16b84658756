// Does not compile unless api.h agrees with NVIDIA's headers.
#define __CUDA_FP16_H__ // no function here has an argument of these types
#define __CUDA_BF16_H__
#include <nccl.h>
#define ENSEMBLE_VENDOR_TYPES
#include "../api.h"

#define X(result, name, args) result(*const check_##name) args = name;
NCCL_FUNCTIONS(X)
#undef X

#define X(name, value) _Static_assert((int)name == value, #name);
NCCL_VALUES(X)
#undef X

// Enumerations are passed as int32_t.
#define X(type) _Static_assert(sizeof(type) == 4, #type);
X(ncclResult_t)
X(ncclDataType_t)
X(ncclRedOp_t)
#undef X

_Static_assert(sizeof(ncclUniqueId) == 128 && _Alignof(ncclUniqueId) == 1, "an id is passed as 128 bytes");
