//go:build cgo && linux

#include "simd.h"
#include <string.h>

// The table in use. Chosen before the first call, changed only by tests.
static const simd_isa *isa = &simd_isa_base;

static const simd_isa *best(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq"))
		return &simd_isa_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &simd_isa_avx2;
#endif
	return &simd_isa_base;
}

__attribute__((constructor)) static void choose(void) { isa = best(); }

const char *simd_isa_name(void) { return isa->name; }

int simd_isa_use(const char *name) {
	const simd_isa *all[] = {
#if defined(__x86_64__)
		&simd_isa_avx512, &simd_isa_avx2,
#endif
		&simd_isa_base};
	int have = 0;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		have |= all[i] == best(); // the list falls from best to plainest
		if (have && strcmp(all[i]->name, name) == 0) {
			isa = all[i];
			return 0;
		}
	}
	return 1;
}

#define X(name, params, args) void simd_##name params { isa->name args; }
KERNELS(X)
#undef X
