// The kernels, each compiled for several instruction sets (isa_*.c) and chosen
// once for the machine it runs on. Go calls the ens_ functions below.
#ifndef ENS_KERN_H
#define ENS_KERN_H
#include "pool.h"
#include <stdint.h>

enum { // elementwise functions of one tensor
	ENS_RELU, ENS_EXP, ENS_LOG, ENS_SQRT, ENS_SQUARE, ENS_ABS, ENS_NEG, ENS_RECIP,
	ENS_SOFTPLUS, ENS_SIGMOID, ENS_TANH, ENS_ERF
};
enum { ENS_ADD, ENS_SUB, ENS_MUL, ENS_DIV, ENS_MIN, ENS_MAX, ENS_RSUB, ENS_RDIV }; // of two tensors; R: b op a
enum { ENS_SET_SUM, ENS_SET_MEAN, ENS_SET_STD, ENS_SET_MIN, ENS_SET_MAX }; // reductions over a set
enum { ENS_SET_ROOM = 4096 }; // largest number of members of a set
enum { ENS_ACCUMULATE = 1, ENS_GATE = 2 }; // how a gradient is stored

enum { ENS_SGD, ENS_NESTEROV, ENS_ADAM, ENS_ADAMW, ENS_LARS, ENS_LAMB }; // optimisers
typedef struct { long lo, hi, tensor, at; } ens_piece; // elements lo to hi of an arena, all of one tensor; at: where its moments begin
typedef struct { // one step of an optimiser, see optim.inc.h
	int rule;
	float lr, beta1, beta2, rest1, rest2, eps, momentum, c1, c2, gscale, blend; // rest is 1-beta, rounded once
} ens_rule;

enum { // functions of a chain: those of two tensors, and from here on
	ENS_CHAIN_UNARY = 16, ENS_CHAIN_GRAD = 32, ENS_CHAIN_AFFINE = 48, ENS_CHAIN_SAFE_DIV,
	ENS_CHAIN_CRPS, ENS_CHAIN_CRPS_DMU, ENS_CHAIN_CRPS_DSIGMA
};
enum { ENS_CHAIN_LINKS = 32, ENS_CHAIN_OPERANDS = 16, ENS_CHAIN_AXES = 5, ENS_CHAIN_NONE = -ENS_CHAIN_OPERANDS - 1 }; // bounds; no argument
typedef struct { const void *x[ENS_CHAIN_OPERANDS]; } ens_operands;
typedef struct { int b16, axes; long d[ENS_CHAIN_AXES], step[ENS_CHAIN_AXES]; } ens_access; // axes 0: as the result
typedef struct { int f, to, arg[3]; float scale, shift; } ens_link; // registers; -1-k is operand k
// padded: cells of a block, blocks, and channels of the last block, of which the other lanes of a result on
// the blocked layout become zero; 0 if it has no padding.
typedef struct { int b16, links; long n, padded[3]; ens_access in[ENS_CHAIN_OPERANDS]; ens_link link[ENS_CHAIN_LINKS]; } ens_program;

typedef struct { // how codes of a convolution are meant, see winoint8.inc.h and directint8.inc.h
	const float *channels;      // scales of the source's
	const float *out;           // 1/scales of the result's; NULL if that is float32
	const int16_t *factors[2];  // of a point, by part of the source
	const float *units[2];      // of the channel's scale that a transformed code is, likewise
	long zero[2];               // code of 0, likewise
} ens_quantisation;

// KERNELS lists name, parameters and arguments of every kernel.
#define KERNELS(X)                                                              \
	X(unary, (ens_pool *p, int op, float *y, const float *x, long n), (p, op, y, x, n)) \
	X(unary_grad, (ens_pool *p, int op, float *dx, const float *dy, const float *x, const float *y, long n), (p, op, dx, dy, x, y, n)) \
	X(binary, (ens_pool *p, int op, float *y, const float *a, const float *b, long n), (p, op, y, a, b, n)) \
	X(affine, (ens_pool *p, float *y, const float *x, float scale, float shift, long n), (p, y, x, scale, shift, n)) \
	X(axpy, (ens_pool *p, float *y, const float *x, float a, long n), (p, y, x, a, n)) \
	X(fill, (ens_pool *p, float *y, float v, long n), (p, y, v, n)) \
	X(broadcast, (ens_pool *p, int op, float *y, const float *a, const float *b, long outer, long mid, long inner, long so, long sm, long si), (p, op, y, a, b, outer, mid, inner, so, sm, si)) \
	X(affine_mid, (ens_pool *p, float *y, const float *x, const float *scale, const float *shift, long outer, long mid, long inner), (p, y, x, scale, shift, outer, mid, inner)) \
	X(sum, (ens_pool *p, double *out, const float *a, const float *b, long n), (p, out, a, b, n)) \
	X(sum_abs, (ens_pool *p, double *out, const float *a, long n), (p, out, a, n)) \
	X(sum_mid, (ens_pool *p, float *y, const float *a, const float *b, long outer, long mid, long inner), (p, y, a, b, outer, mid, inner)) \
	X(sum_axis, (ens_pool *p, float *y, const float *x, float scale, long outer, long mid, long inner), (p, y, x, scale, outer, mid, inner)) \
	X(moments_mid, (ens_pool *p, float *mean, float *var, const float *x, long outer, long mid, long inner), (p, mean, var, x, outer, mid, inner)) \
	X(batchnorm_grad, (ens_pool *p, float *dx, const float *dy, const float *x, const float *a, const float *b, const float *c, long outer, long mid, long inner), (p, dx, dy, x, a, b, c, outer, mid, inner)) \
	X(crps_gauss, (ens_pool *p, float *crps, float *dmu, float *dsigma, float *dy, const float *mu, const float *sigma, const float *y, long n), (p, crps, dmu, dsigma, dy, mu, sigma, y, n)) \
	X(set_pool, (ens_pool *p, int kind, float *y, const float *x, long samples, long m, long inner), (p, kind, y, x, samples, m, inner)) \
	X(set_pool_grad, (ens_pool *p, int kind, float *dx, const float *x, const float *y, const float *dy, long samples, long m, long inner), (p, kind, dx, x, y, dy, samples, m, inner)) \
	X(set_crps, (ens_pool *p, float *score, float *dx, const float *x, const float *y, const float *dy, long samples, long m, long inner, long first, double pair), (p, score, dx, x, y, dy, samples, m, inner, first, pair)) \
	X(softmax, (ens_pool *p, float *y, const float *x, long outer, long mid, long inner), (p, y, x, outer, mid, inner)) \
	X(softmax_grad, (ens_pool *p, float *dx, const float *y, const float *dy, long outer, long mid, long inner), (p, dx, y, dy, outer, mid, inner)) \
	X(set_dot, (ens_pool *p, float *w, const float *q, const float *k, const long *g), (p, w, q, k, g)) \
	X(set_mix, (ens_pool *p, float *y, const float *w, const float *x, const long *g, int transposed), (p, y, w, x, g, transposed)) \
	X(axis, (ens_pool *p, int what, float *y, const float *x, const float *offsets, const float *dy, float *scratch, const long *g, const long *window), (p, what, y, x, offsets, dy, scratch, g, window)) \
	X(pointnorm, (ens_pool *p, int what, float *y, const float *x, const float *dy, const float *gamma, const float *beta, float *scratch, double eps, long rows, long c, long s, long items), (p, what, y, x, dy, gamma, beta, scratch, eps, rows, c, s, items)) \
	X(opt_squares, (ens_pool *p, double *part, const ens_piece *piece, long n, const float *w, const float *g), (p, part, piece, n, w, g)) \
	X(opt_moments, (ens_pool *p, double *part, const ens_piece *piece, long n, const ens_rule *r, const float *decay, const float *w, float *m, float *v, const float *g), (p, part, piece, n, r, decay, w, m, v, g)) \
	X(opt_move, (ens_pool *p, const ens_piece *piece, long n, const ens_rule *r, const float *decay, const float *ratio, float *w, float *m, float *v, float *e, const float *g), (p, piece, n, r, decay, ratio, w, m, v, e, g)) \
	X(strided_copy, (ens_pool *p, float *y, long ystride, const float *x, long xstride, long rows, long len, int add), (p, y, ystride, x, xstride, rows, len, add)) \
	X(pad, (ens_pool *p, float *y, const float *x, long planes, const long *in, const long *lo, const long *hi, const int *mode), (p, y, x, planes, in, lo, hi, mode)) \
	X(pad_grad, (ens_pool *p, float *dx, const float *dy, long planes, const long *in, const long *lo, const long *hi, const int *mode), (p, dx, dy, planes, in, lo, hi, mode)) \
	X(fold_filter, (ens_pool *p, float *w2, float *w, long cout, long cin, long kd, long khw, long din, long dout, long stride, long dilation, long pad, int grad), (p, w2, w, cout, cin, kd, khw, din, dout, stride, dilation, pad, grad)) \
	X(maxpool, (ens_pool *p, float *y, unsigned char *arg, const float *x, long planes, const long *in, const long *k), (p, y, arg, x, planes, in, k)) \
	X(maxpool_grad, (ens_pool *p, float *dx, const float *dy, const unsigned char *arg, long planes, const long *in, const long *k), (p, dx, dy, arg, planes, in, k)) \
	X(gram, (ens_pool *p, float *out, const float *x, const long *g, const long *taps0, const long *taps1, const long *taps2, const float *scale, float *scratch), (p, out, x, g, taps0, taps1, taps2, scale, scratch)) \
	X(products, (ens_pool *p, float *z, const float *a, const float *b, const long *g, const long *first, const long *runs), (p, z, a, b, g, first, runs)) \
	X(upsample, (ens_pool *p, float *y, const float *x, long planes, const long *in, const long *f, int wrap), (p, y, x, planes, in, f, wrap)) \
	X(upsample_grad, (ens_pool *p, float *dx, const float *dy, long planes, const long *in, const long *f, int wrap), (p, dx, dy, planes, in, f, wrap)) \
	X(blocked_from, (ens_pool *p, int b16, void *y, const float *x, long n, long c, long s, long blocks, long first), (p, b16, y, x, n, c, s, blocks, first)) \
	X(blocked_to, (ens_pool *p, int b16, float *y, const void *x, long n, long c, long s, long blocks, long first), (p, b16, y, x, n, c, s, blocks, first)) \
	X(blocked_move, (ens_pool *p, int b16, void *y, long ytotal, long yc, const void *x, long xtotal, long xc, long n, long c, long s, int add), (p, b16, y, ytotal, yc, x, xtotal, xc, n, c, s, add)) \
	X(blocked_add, (ens_pool *p, int b16, void *z, const void *a, const void *b, const void *gate, int relu, long n), (p, b16, z, a, b, gate, relu, n)) \
	X(blocked_mul, (ens_pool *p, int b16, void *z, const void *a, const void *b, long n), (p, b16, z, a, b, n)) \
	X(chain, (ens_pool *p, void *y, ens_operands x, const ens_program *c), (p, y, x, c)) \
	X(convert, (ens_pool *p, int to16, void *z, const void *x, long n), (p, to16, z, x, n)) \
	X(blocked_window, (ens_pool *p, int b16, int mean, void *y, const void *x, long planes, const long *in, const long *k), (p, b16, mean, y, x, planes, in, k)) \
	X(blocked_window_grad, (ens_pool *p, int b16, int mean, void *dx, const void *dy, const void *x, long planes, const long *in, const long *k, int mode), (p, b16, mean, dx, dy, x, planes, in, k, mode)) \
	X(blocked_upsample, (ens_pool *p, int b16, void *y, const void *x, long planes, const long *in, const long *f, int wrap), (p, b16, y, x, planes, in, f, wrap)) \
	X(blocked_upsample_grad, (ens_pool *p, int b16, void *dx, const void *dy, const void *x, long planes, const long *in, const long *f, int wrap, int mode), (p, b16, dx, dy, x, planes, in, f, wrap, mode)) \
	X(blocked_sums, (ens_pool *p, int b16, float *sum, float *dot, const void *x, const void *z, const float *scale, const float *shift, long n, long c, long s), (p, b16, sum, dot, x, z, scale, shift, n, c, s)) \
	X(blocked_moments, (ens_pool *p, int b16, float *mean, float *var, const void *x, long n, long c, long s), (p, b16, mean, var, x, n, c, s)) \
	X(blocked_affine, (ens_pool *p, int b16, void *y, const void *x, const float *scale, const float *shift, int relu, long n, long c, long s), (p, b16, y, x, scale, shift, relu, n, c, s)) \
	X(blocked_combine, (ens_pool *p, int b16, void *z, const void *x, const void *y, const float *scale, const float *shift, const float *a, const float *b, const float *c, long n, long channels, long s), (p, b16, z, x, y, scale, shift, a, b, c, n, channels, s)) \
	X(dropout, (ens_pool *p, float *y, const float *x, unsigned long key, unsigned long below, float keep, long n), (p, y, x, key, below, keep, n)) \
	X(blocked_dropout, (ens_pool *p, int b16, void *y, const void *x, unsigned long key, unsigned long below, float keep, long n, long c, long s), (p, b16, y, x, key, below, keep, n, c, s)) \
	X(point, (ens_pool *p, int b16, void *y, const void *x0, const void *x1, const float *w, long wk, long wc, const float *bias, const void *gate, const void *plus, int relu, float *packed, long n, long c0, long c1, long k, long s), (p, b16, y, x0, x1, w, wk, wc, bias, gate, plus, relu, packed, n, c0, c1, k, s)) \
	X(point_filter, (ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *dy, long n, long c0, long c1, long k, long s), (p, b16, dw, x0, x1, dy, n, c0, c1, k, s)) \
	X(conv, (ens_pool *p, float *y, const float *x, const float *w, const float *bias, float *scratch, const long *g, const int *taps, int *infinite), (p, y, x, w, bias, scratch, g, taps, infinite)) \
	X(conv_filter, (ens_pool *p, float *dw, const float *x, const float *dy, float *scratch, const long *g, const int *taps, int *infinite), (p, dw, x, dy, scratch, g, taps, infinite)) \
	X(conv_naive, (ens_pool *p, float *y, const float *x, const float *w, const float *bias, const long *g), (p, y, x, w, bias, g)) \
	X(conv_naive_data, (ens_pool *p, float *dx, const float *dy, const float *w, const long *g), (p, dx, dy, w, g)) \
	X(conv_naive_filter, (ens_pool *p, float *dw, const float *x, const float *dy, const long *g), (p, dw, x, dy, g)) \
	X(finite, (ens_pool *p, float *y, int relu, int *infinite, long n), (p, y, relu, infinite, n)) \
	X(narrow, (ens_pool *p, int b16, float *y, const void *x, const float *w, const float *bias, float *scratch, const long *g), (p, b16, y, x, w, bias, scratch, g)) \
	X(narrow_data, (ens_pool *p, int b16, void *dx, const float *dy, const float *w, const void *gate, float *scratch, const long *g), (p, b16, dx, dy, w, gate, scratch, g)) \
	X(narrow_filter, (ens_pool *p, int b16, float *dw, const void *x, const float *dy, float *scratch, const long *g), (p, b16, dw, x, dy, scratch, g)) \
	X(wino, (ens_pool *p, int x16, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g, const long *items, long count, int again), (p, x16, y16, y, x0, x1, f0, f1, w, bias, gate, plus, scratch, g, items, count, again)) \
	X(wino_filter, (ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g), (p, b16, dw, x0, x1, f0, f1, dy, scratch, g)) \
	X(wino_sparse, (ens_pool *p, int x16, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g, const long *kept, const long *items, long count, int again), (p, x16, y16, y, x0, x1, f0, f1, w, bias, gate, plus, scratch, g, kept, items, count, again)) \
	X(wino_sparse_filter, (ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g, const long *kept), (p, b16, dw, x0, x1, f0, f1, dy, scratch, g, kept)) \
	X(wino_int8, (ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q, const long *kept, int vnni), (p, y16, y, x0, x1, w, bias, scratch, g, q, kept, vnni)) \
	X(quantise, (ens_pool *p, int b16, uint8_t *y, const void *x, const float *scale, long zero, long n, long blocks, long s, long plain), (p, b16, y, x, scale, zero, n, blocks, s, plain)) \
	X(int8_max_pool, (ens_pool *p, uint8_t *y, const uint8_t *x, long planes, const long *in, const long *k), (p, y, x, planes, in, k)) \
	X(int8_upsample, (ens_pool *p, uint8_t *y, const uint8_t *x, long planes, const long *in, int wrap), (p, y, x, planes, in, wrap))

#define X(name, params, args) void ens_##name params;
KERNELS(X)
#undef X

// The kernels of one instruction set.
typedef struct {
	const char *name;
#define X(name, params, args) void (*name) params;
	KERNELS(X)
#undef X
} ens_isa;

extern const ens_isa ens_isa_base;
#if defined(__x86_64__)
extern const ens_isa ens_isa_avx2, ens_isa_avx512, ens_isa_avx512bf16;
#endif
const char *ens_isa_name(void);
int ens_has_vnni(void); // AVX512_VNNI, in the instruction set in use
int ens_has_amx_int8(void); // likewise AMX_INT8
// ens_direct computes y = conv(x, w) (+ bias) (ReLU) (+ plus) of bfloat16 by AMX, see direct.inc.h.
void ens_direct(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g);
// ens_direct_filter computes the gradient of its filter, see directfilter.inc.h.
void ens_direct_filter(ens_pool *p, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g);
// ens_direct_int8 computes y = conv(x, w) + bias (ReLU) of codes by AMX, see directint8.inc.h.
void ens_direct_int8(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q);
// ens_isa_use forces an instruction set by name for tests; 1 if this machine lacks it.
int ens_isa_use(const char *name);
#endif
