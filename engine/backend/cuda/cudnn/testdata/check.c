// Does not compile unless api.h says what NVIDIA's headers say.
#include <cudnn.h>
#define ENSEMBLE_VENDOR_TYPES
#include "../api.h"

#define X(result, name, args) result(*const check_##name) args = name;
CUDNN_FUNCTIONS(X)
#undef X

#define X(name, value) _Static_assert((int)name == value, #name);
CUDNN_VALUES(X)
#undef X

// Enumerations travel as int32_t.
#define X(type) _Static_assert(sizeof(type) == 4, #type);
X(cudnnStatus_t)
X(cudnnBackendDescriptorType_t)
X(cudnnBackendAttributeName_t)
X(cudnnBackendAttributeType_t)
X(cudnnDataType_t)
X(cudnnConvolutionMode_t)
X(cudnnPointwiseMode_t)
X(cudnnNanPropagation_t)
X(cudnnBackendHeurMode_t)
X(cudnnBackendNumericalNote_t)
X(cudnnBackendBehaviorNote_t)
X(cudnnBackendKnobType_t)
#undef X
