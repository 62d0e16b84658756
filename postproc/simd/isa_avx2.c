//go:build cgo && linux

// The kernels for machines with avx2.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define VL 8 // float32 in a vector
#include "kernels.inc.h"

const simd_isa simd_isa_avx2 = {
	.name = "avx2",
#define X(name, params, args) .name = k_##name,
	KERNELS(X)
#undef X
};
#endif
