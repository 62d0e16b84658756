//go:build cgo && linux

#include "kern.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// The table in use. Chosen before the first call, changed only by tests.
static const ens_isa *isa = &ens_isa_base;

static const ens_isa *best(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
			__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
		return __builtin_cpu_supports("avx512bf16") ? &ens_isa_avx512bf16 : &ens_isa_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &ens_isa_avx2;
#endif
	return &ens_isa_base;
}

// most is the best set that a machine would have to which oneDNN's variable holds down its kernels: with one
// variable all kernels of a run round as on an older processor. NULL where it says nothing.
static const ens_isa *most(void) {
#if defined(__x86_64__)
	const char *name = getenv("ONEDNN_MAX_CPU_ISA");
	if (!name) name = getenv("DNNL_MAX_CPU_ISA");
	if (!name) return NULL;
	if (!strcasecmp(name, "sse41") || !strcasecmp(name, "avx")) return &ens_isa_base;
	if (!strncasecmp(name, "avx2", 4)) return &ens_isa_avx2;
	if (!strcasecmp(name, "avx512_core") || !strcasecmp(name, "avx512_core_vnni")) return &ens_isa_avx512;
	if (!strcasecmp(name, "avx512_core_bf16") || !strcasecmp(name, "avx512_core_fp16")) return &ens_isa_avx512bf16;
#endif
	return NULL;
}

// AMX_BF16: the system lets this process use it; and it is in use, beside the kernels of avx512bf16. Whether
// the processor has AMX_INT8 too.
static int permitted, amx, amx_int8;

// permit asks the system for the registers of AMX, which it grants once for all threads of a process.
static int permit(void) {
#if defined(__x86_64__)
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, TILE = 1 << 24, INT8 = 1 << 25, BF16 = 1 << 22 };
	unsigned a, b, c, d;
	if (best() != &ens_isa_avx512bf16 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (TILE | BF16)) != (TILE | BF16)) return 0;
	amx_int8 = (d & INT8) != 0;
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
	return 0;
#endif
}

__attribute__((constructor)) static void choose(void) {
	isa = best();
	amx = permitted = permit();
	const ens_isa *held = most();
	if (held) ens_isa_use(held->name); // what the machine lacks is refused
}

const char *ens_isa_name(void) { return amx ? "amx" : isa->name; }

int ens_has_vnni(void) {
#if defined(__x86_64__)
	return (isa == &ens_isa_avx512 || isa == &ens_isa_avx512bf16) && __builtin_cpu_supports("avx512vnni");
#else
	return 0;
#endif
}

int ens_has_amx_int8(void) { return amx && amx_int8; }

int ens_isa_use(const char *name) {
	if (!strcmp(name, "amx")) {
		if (!permitted) return 1;
		isa = best();
		amx = 1;
		return 0;
	}
	const ens_isa *all[] = {
#if defined(__x86_64__)
		&ens_isa_avx512bf16, &ens_isa_avx512, &ens_isa_avx2,
#endif
		&ens_isa_base};
	int have = 0;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		have |= all[i] == best(); // the list falls from best to plainest
		if (have && strcmp(all[i]->name, name) == 0) {
			isa = all[i];
			amx = 0;
			return 0;
		}
	}
	return 1;
}

#define X(name, params, args) void ens_##name params { isa->name args; }
KERNELS(X)
#undef X
