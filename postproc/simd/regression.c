//go:build cgo && linux

#include "regression.h"
#include <string.h>

#pragma GCC optimize("no-math-errno,no-trapping-math")
#include "erfcx.inc.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

enum { LOCATION = 6, TERMS = LOCATION + 2 };

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")
#define DL 8
#define NAME(x) x##_avx512
#include "regression.inc.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define DL 4
#define NAME(x) x##_avx2
#include "regression.inc.h"
#pragma GCC pop_options
#endif
#define DL 2
#define NAME(x) x##_base
#include "regression.inc.h"

// The selected function. It is set before main and changed by tests only.
static void (*sums)(SUMS);

int simd_use(const char *name) {
#define USE(isa) \
	if (!name || strcmp(name, #isa) == 0) { \
		sums = k_normal_sums_##isa; \
		return 0; \
	}
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq")) {
		USE(avx512)
	}
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		USE(avx2)
	}
#endif
	USE(base)
	return 1;
}

__attribute__((constructor)) static void best(void) { simd_use(NULL); }

void simd_normal_sums(SUMS) { sums(out, theta, season, anomaly, spread, obs, dates, seasons, link); }
