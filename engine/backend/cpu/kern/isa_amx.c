//go:build cgo && linux

// Convolutions for machines with AMX, whose other kernels are those of avx512bf16.
#include "kern.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,fma,prefer-vector-width=512")
#pragma GCC diagnostic ignored "-Wunused-function"
#define VL 16 // float32 in a vector
#include "isa.inc.h"
#include "direct.inc.h"
#include "directfilter.inc.h"
#include "directint8.inc.h"

void ens_direct(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g) {
	direct_run(p, y16, y, x0, x1, f0, f1, w, bias, gate, plus, scratch, g);
}

void ens_direct_filter(ens_pool *p, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g) {
	direct_filter_run(p, dw, x0, x1, f0, f1, dy, scratch, g);
}

void ens_direct_int8(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q) {
	direct_int8_run(p, y16, y, x0, x1, w, bias, scratch, g, q);
}
#else
void ens_direct(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g) {}
void ens_direct_filter(ens_pool *p, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g) {}
void ens_direct_int8(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q) {}
#endif
