//go:build cgo && linux

#include "shim.h"
#include <dlfcn.h>
#include <stdlib.h>

int ens_nvrtc_bind(ens_nvrtc *t, void *library, const char **missing, int max) {
	int n = 0;
#define BIND(result, name, parameters) \
	*(void **)&t->name = dlsym(library, #name); \
	if (!t->name && n < max) missing[n++] = #name;
	ENS_NVRTC_FUNCTIONS(BIND)
#undef BIND
	return n;
}

int ens_nvrtc_version(ens_nvrtc *t, int *major, int *minor) { return t->nvrtcVersion(major, minor); }

int ens_nvrtc_architectures(ens_nvrtc *t, int *list, int max, int *n) {
	int rc = t->nvrtcGetNumSupportedArchs(n);
	if (rc) return rc;
	if (*n > max) *n = 0; // more than max, which does not happen
	return *n ? (int)t->nvrtcGetSupportedArchs(list) : 0;
}

const char *ens_nvrtc_text(ens_nvrtc *t, int code) {
	const char *s = t->nvrtcGetErrorString(code);
	return s ? s : "";
}

int ens_nvrtc_compile(ens_nvrtc *t, const char *source, const char *name, int n, const char **options, int ptx, ens_nvrtc_result *r) {
	nvrtcProgram p = 0;
	int rc;
#define TRY(call, words) \
	if ((rc = (call))) { \
		r->what = words; \
		goto done; \
	}
	TRY(t->nvrtcCreateProgram(&p, source, name, 0, 0, 0), "nvrtcCreateProgram")
	rc = t->nvrtcCompileProgram(p, n, options);
	size_t bytes = 0;
	if (t->nvrtcGetProgramLogSize(p, &bytes) == 0 && bytes > 1 && (r->log = calloc(1, bytes + 1)))
		t->nvrtcGetProgramLog(p, r->log);
	TRY(rc, "nvrtcCompileProgram")
	if (ptx) {
		TRY(t->nvrtcGetPTXSize(p, &r->image_bytes), "nvrtcGetPTXSize")
	} else {
		TRY(t->nvrtcGetCUBINSize(p, &r->image_bytes), "nvrtcGetCUBINSize")
	}
	r->image = malloc(r->image_bytes + 1);
	if (!r->image) {
		r->image_bytes = 0;
		goto done; // no image and no error code: the caller reports it
	}
	r->image[r->image_bytes] = 0;
	if (ptx) {
		TRY(t->nvrtcGetPTX(p, r->image), "nvrtcGetPTX")
	} else {
		TRY(t->nvrtcGetCUBIN(p, r->image), "nvrtcGetCUBIN")
	}
#undef TRY
done:
	if (p) {
		int destroyed = t->nvrtcDestroyProgram(&p);
		if (rc == 0 && destroyed) {
			rc = destroyed;
			r->what = "nvrtcDestroyProgram";
		}
	}
	return rc;
}
