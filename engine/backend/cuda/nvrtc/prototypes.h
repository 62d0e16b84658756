// What this program uses of NVRTC, as the vendor's nvrtc.h has it. The test
// TestHeaders of package gpu compiles this list against that file.
#pragma once
#include <stddef.h>

#ifdef ENS_CHECK_HEADERS
#include <nvrtc.h>
#else
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
#endif

#define ENS_NVRTC_FUNCTIONS(F) \
	F(const char *, nvrtcGetErrorString, (nvrtcResult code)) \
	F(nvrtcResult, nvrtcVersion, (int *major, int *minor)) \
	F(nvrtcResult, nvrtcGetNumSupportedArchs, (int *n)) \
	F(nvrtcResult, nvrtcGetSupportedArchs, (int *architectures)) \
	F(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *program, const char *source, const char *name, int n, const char *const *headers, const char *const *names)) \
	F(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *program)) \
	F(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int n, const char *const *options)) \
	F(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *bytes)) \
	F(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char *log)) \
	F(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *bytes)) \
	F(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin)) \
	F(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, size_t *bytes)) \
	F(nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char *ptx))

#define ENS_NVRTC_CONSTANTS(C) \
	C(NVRTC_SUCCESS, 0) \
	C(NVRTC_ERROR_COMPILATION, 6)

#define ENS_CONSTANT(name, value) ENS_##name = value,
enum { ENS_NVRTC_CONSTANTS(ENS_CONSTANT) };
#undef ENS_CONSTANT

#define ENS_MEMBER(result, name, parameters) result (*name) parameters;
typedef struct {
	ENS_NVRTC_FUNCTIONS(ENS_MEMBER)
} ens_nvrtc;
#undef ENS_MEMBER
