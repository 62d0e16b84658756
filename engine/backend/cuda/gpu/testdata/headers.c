// Compiled against the vendor's cuda.h and nvrtc.h, never run: a prototype, constant or
// size of ours that differs from theirs is an error.
#define ENS_CHECK_HEADERS
#include "../prototypes.h"
#include "../../nvrtc/prototypes.h"
#include <stddef.h>
#include <stdint.h>

#define SAME_CONSTANT(name, value) _Static_assert(name == value, #name);
ENS_CUDA_CONSTANTS(SAME_CONSTANT)
ENS_NVRTC_CONSTANTS(SAME_CONSTANT)

// Where we write int for an enumeration, and a number for a device.
#define SAME_SIZE(type, ours) _Static_assert(sizeof(type) == sizeof(ours), #type);
SAME_SIZE(CUresult, int)
SAME_SIZE(CUdevice, int)
SAME_SIZE(CUuuid, char[16])
SAME_SIZE(CUdeviceptr, unsigned long long)
SAME_SIZE(CUdevice_attribute, int)
SAME_SIZE(CUfunction_attribute, int)
SAME_SIZE(CUjit_option, int)
SAME_SIZE(CUstreamCaptureMode, int)
SAME_SIZE(nvrtcResult, int)

// The vendor's functions must have the types of our members.
const ens_cuda cuda_functions = {
#define SAME_FUNCTION(name, parameters) .name = name,
	ENS_CUDA_FUNCTIONS(SAME_FUNCTION) ENS_CUDA_OPTIONAL(SAME_FUNCTION)
};
const ens_nvrtc nvrtc_functions = {
#define SAME_NVRTC(result, name, parameters) .name = name,
	ENS_NVRTC_FUNCTIONS(SAME_NVRTC)
};
