#pragma once
#include "prototypes.h"

// ens_nvrtc_bind resolves all functions; the names of those that are missing are put into
// missing, and their number is given.
int ens_nvrtc_bind(ens_nvrtc *t, void *library, const char **missing, int max);
int ens_nvrtc_version(ens_nvrtc *t, int *major, int *minor);
// ens_nvrtc_architectures puts up to max into list and gives how many there are in *n.
int ens_nvrtc_architectures(ens_nvrtc *t, int *list, int max, int *n);
const char *ens_nvrtc_text(ens_nvrtc *t, int code);

typedef struct {
	char *image, *log; // from malloc, to be freed by the caller; may be 0
	size_t image_bytes;
	const char *what; // the call that failed
} ens_nvrtc_result;

// ens_nvrtc_compile gives machine code, or with ptx the text between.
int ens_nvrtc_compile(ens_nvrtc *t, const char *source, const char *name, int n, const char **options, int ptx, ens_nvrtc_result *r);
