// A compiler that gives the options and the source, for tests without NVRTC. A source with
// the word "wrong" does not compile. FAKE_NVRTC_LOG is a file that gets a line for each
// compilation.
#include "../../nvrtc/prototypes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _nvrtcProgram { char *text, *log; };

const char *nvrtcGetErrorString(nvrtcResult code) { return code == ENS_NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
nvrtcResult nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 4; return 0; }
nvrtcResult nvrtcGetNumSupportedArchs(int *n) { *n = 3; return 0; }
nvrtcResult nvrtcGetSupportedArchs(int *a) { a[0] = 70; a[1] = 80; a[2] = 90; return 0; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n, const char *const *headers, const char *const *names) {
	if (n || headers || names) return 3;
	*program = calloc(1, sizeof **program);
	(*program)->text = malloc(strlen(source) + strlen(name) + 8);
	sprintf((*program)->text, "%s\n%s\n", name, source);
	(*program)->log = strdup(strstr(source, "wrong") ? "line 1: this is wrong" : "");
	return 0;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
	free((*program)->text);
	free((*program)->log);
	free(*program);
	*program = 0;
	return 0;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options) {
	const char *file = getenv("FAKE_NVRTC_LOG");
	FILE *f = file && *file ? fopen(file, "a") : 0;
	if (f) {
		fprintf(f, "compiled\n");
		fclose(f);
	}
	if (*program->log) return ENS_NVRTC_ERROR_COMPILATION;
	for (int i = 0; i < n; i++) {
		program->text = realloc(program->text, strlen(program->text) + strlen(options[i]) + 2);
		strcat(strcat(program->text, options[i]), "\n");
	}
	return 0;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) { *bytes = strlen(program->log) + 1; return 0; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) { strcpy(log, program->log); return 0; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) { *bytes = strlen(program->text) + 1; return 0; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) { strcpy(cubin, program->text); return 0; }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) { *bytes = strlen(program->text) + 5; return 0; }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) { sprintf(ptx, "ptx\n%s", program->text); return 0; }
