//go:build cgo && linux

// The kernels for machines with avx512.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")
#define VL 16 // float32 in a vector
#include "kernels.inc.h"

const simd_isa simd_isa_avx512 = {
	.name = "avx512",
#define X(name, params, args) .name = k_##name,
	KERNELS(X)
#undef X
};
#endif
