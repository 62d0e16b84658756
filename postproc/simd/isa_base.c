//go:build cgo && linux

// The kernels for any machine.
#define VL 4 // float32 in a vector
#include "kernels.inc.h"

const simd_isa simd_isa_base = {
	.name = "base",
#define X(name, params, args) .name = k_##name,
	KERNELS(X)
#undef X
};
