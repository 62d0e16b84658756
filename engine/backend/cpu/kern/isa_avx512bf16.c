//go:build cgo && linux

// The kernels for machines with avx512 and its products of bfloat16.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,fma,prefer-vector-width=512")
#define VL 16 // float32 in a vector
#include "isa.inc.h"

const ens_isa ens_isa_avx512bf16 = {
	.name = "avx512bf16",
#define X(name, params, args) .name = k_##name,
	KERNELS(X)
#undef X
};
#endif
