//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdlib.h>
#include <string.h>

#define V3 (DNNL_VERSION_MAJOR >= 3)

// In 2.x a memory descriptor is a structure, in 3.x an opaque pointer. Here it
// is always a pointer to const.
#if V3
typedef const_dnnl_memory_desc_t md_t;
#define VERSION_FUNCTIONS(X)                                                    \
	X(dnnl_memory_desc_create_with_tag)                                         \
	X(dnnl_memory_desc_destroy)                                                 \
	X(dnnl_convolution_forward_primitive_desc_create)                           \
	X(dnnl_convolution_backward_data_primitive_desc_create)                     \
	X(dnnl_convolution_backward_weights_primitive_desc_create)
#else
typedef const dnnl_memory_desc_t *md_t;
#define VERSION_FUNCTIONS(X)                                                    \
	X(dnnl_memory_desc_init_by_tag)                                             \
	X(dnnl_primitive_desc_create)                                               \
	X(dnnl_dilated_convolution_forward_desc_init)                               \
	X(dnnl_dilated_convolution_backward_data_desc_init)                         \
	X(dnnl_dilated_convolution_backward_weights_desc_init)
#endif
#define FUNCTIONS(X)                                                            \
	VERSION_FUNCTIONS(X)                                                        \
	X(dnnl_version) X(dnnl_engine_create) X(dnnl_engine_destroy)                \
	X(dnnl_stream_create) X(dnnl_stream_destroy) X(dnnl_stream_wait)            \
	X(dnnl_memory_create) X(dnnl_memory_destroy)                                \
	X(dnnl_memory_set_data_handle) X(dnnl_memory_desc_get_size)                 \
	X(dnnl_memory_desc_equal) X(dnnl_primitive_desc_query)                      \
	X(dnnl_primitive_desc_query_md) X(dnnl_primitive_desc_destroy)              \
	X(dnnl_primitive_create) X(dnnl_primitive_execute)                          \
	X(dnnl_primitive_destroy) X(dnnl_primitive_attr_create)                     \
	X(dnnl_primitive_attr_destroy) X(dnnl_primitive_attr_set_scratchpad_mode)   \
	X(dnnl_reorder_primitive_desc_create) X(dnnl_sgemm)

// The table of functions, filled by ens_dnnl_bind. Types come from the headers.
static struct {
#define X(f) __typeof__(&f) f;
	FUNCTIONS(X)
#undef X
	void (*omp_set_num_threads)(int);
	int (*omp_get_max_threads)(void);
} d;

static dnnl_engine_t eng;    // one CPU engine for the process; immutable, shared
static __thread dnnl_stream_t strm; // one stream per OS thread that runs convolutions

int ens_dnnl_major(void) { return DNNL_VERSION_MAJOR; }

int ens_dnnl_header_version(int *minor, int *patch) {
	*minor = DNNL_VERSION_MINOR;
	*patch = DNNL_VERSION_PATCH;
	return DNNL_VERSION_MAJOR;
}

int ens_dnnl_bind(void *h, const char **name) {
#define X(f)                                                                    \
	if (!(d.f = (__typeof__(&f))dlsym(h, #f))) { *name = #f; return 1; }
	FUNCTIONS(X)
#undef X
	// Present in builds with OpenMP only; other builds have threads of their own.
	d.omp_set_num_threads = (void (*)(int))dlsym(h, "omp_set_num_threads");
	d.omp_get_max_threads = (int (*)(void))dlsym(h, "omp_get_max_threads");
	if (!eng && d.dnnl_engine_create(&eng, dnnl_cpu, 0) != dnnl_success) {
		*name = "a CPU engine (dnnl_engine_create)";
		return 1;
	}
	return 0;
}

int ens_dnnl_version(int *major, int *minor, int *patch) {
	const dnnl_version_t *v = d.dnnl_version();
	*major = v->major; *minor = v->minor; *patch = v->patch;
	return 0;
}

void ens_dnnl_threads(int n) {
	if (d.omp_set_num_threads && n > 0) d.omp_set_num_threads(n);
}

int ens_dnnl_max_threads(void) { return d.omp_get_max_threads ? d.omp_get_max_threads() : 1; }

// md_new makes a float32 descriptor that md_free releases.
static int md_new(md_t *out, int nd, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
#if V3
	dnnl_memory_desc_t m = 0;
	int rc = d.dnnl_memory_desc_create_with_tag(&m, nd, dims, dnnl_f32, tag);
#else
	dnnl_memory_desc_t *m = calloc(1, sizeof *m);
	if (!m) return dnnl_out_of_memory;
	int rc = d.dnnl_memory_desc_init_by_tag(m, nd, dims, dnnl_f32, tag);
	if (rc) { free(m); m = 0; }
#endif
	*out = m;
	return rc;
}

static void md_free(md_t m) {
	if (!m) return;
#if V3
	d.dnnl_memory_desc_destroy((dnnl_memory_desc_t)m);
#else
	free((void *)m);
#endif
}

// One tensor of a pass: the caller's plain memory and, where the primitive
// wants another layout, the inner memory in scratch with the reorder between.
typedef struct {
	int arg, output;
	dnnl_memory_t user, inner;
	dnnl_primitive_t reorder;
	size_t off, size;
	void *at; // address that user holds now
} tensor;

struct ens_conv {
	dnnl_primitive_t prim;
	tensor t[4]; // src, weights, bias, dst
	int used[4], threads, reorders;
	dnnl_memory_t pad; // oneDNN's own scratchpad
	size_t pad_off, scratch;
	void *scratch_at;
	char impl[96];
};

#define TRY(what_, call)                                                        \
	do { if ((rc = (call)) != 0) { *what = what_; goto fail; } } while (0)

enum { SRC, WEI, BIAS, DST };

// make_desc creates the primitive descriptor of the pass. hint is the forward
// descriptor that the backward passes ask for.
static int make_desc(const ens_conv_spec *s, int pass, md_t m[4], int bias,
		const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
		dnnl_primitive_desc_t *pd) {
	dnnl_dims_t st, di, lo, hi;
	for (int i = 0; i < s->nsp; i++) {
		st[i] = s->stride[i];
		di[i] = s->dilation[i] - 1; // oneDNN counts the gaps
		lo[i] = s->pad_lo[i];
		hi[i] = s->pad_hi[i];
	}
	dnnl_alg_kind_t alg = s->alg == ENS_ALG_WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
	md_t b = bias ? m[BIAS] : 0;
#if V3
	switch (pass) {
	case ENS_FORWARD:
		return d.dnnl_convolution_forward_primitive_desc_create(pd, eng,
				s->inference ? dnnl_forward_inference : dnnl_forward_training, alg,
				m[SRC], m[WEI], b, m[DST], st, di, lo, hi, attr);
	case ENS_BACKWARD_DATA:
		return d.dnnl_convolution_backward_data_primitive_desc_create(pd, eng, alg,
				m[SRC], m[WEI], m[DST], st, di, lo, hi, hint, attr);
	default:
		return d.dnnl_convolution_backward_weights_primitive_desc_create(pd, eng, alg,
				m[SRC], m[WEI], b, m[DST], st, di, lo, hi, hint, attr);
	}
#else
	dnnl_convolution_desc_t cd;
	int rc;
	switch (pass) {
	case ENS_FORWARD:
		rc = d.dnnl_dilated_convolution_forward_desc_init(&cd,
				s->inference ? dnnl_forward_inference : dnnl_forward_training, alg,
				m[SRC], m[WEI], b, m[DST], st, di, lo, hi);
		break;
	case ENS_BACKWARD_DATA:
		rc = d.dnnl_dilated_convolution_backward_data_desc_init(&cd, alg,
				m[SRC], m[WEI], m[DST], st, di, lo, hi);
		break;
	default:
		rc = d.dnnl_dilated_convolution_backward_weights_desc_init(&cd, alg,
				m[SRC], m[WEI], b, m[DST], st, di, lo, hi);
	}
	if (rc) return rc;
	return d.dnnl_primitive_desc_create(pd, &cd, attr, eng, hint);
#endif
}

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }

// add_tensor records tensor i of the pass and, if the layouts differ, its reorder.
static int add_tensor(ens_conv *c, int i, int arg, int output, md_t user, md_t inner, const char **what) {
	tensor *t = &c->t[i];
	dnnl_primitive_desc_t pd = 0;
	int rc = 0;
	c->used[i] = 1;
	t->arg = arg;
	t->output = output;
	TRY("create memory", d.dnnl_memory_create(&t->user, user, eng, DNNL_MEMORY_NONE));
	if (d.dnnl_memory_desc_equal(user, inner)) return 0;
	TRY("create memory", d.dnnl_memory_create(&t->inner, inner, eng, DNNL_MEMORY_NONE));
	TRY("describe reorder", d.dnnl_reorder_primitive_desc_create(&pd, output ? inner : user, eng,
			output ? user : inner, eng, 0));
	TRY("create reorder", d.dnnl_primitive_create(&t->reorder, pd));
	t->off = c->scratch;
	t->size = align64(d.dnnl_memory_desc_get_size(inner));
	c->scratch += t->size;
	c->reorders++;
fail:
	if (pd) d.dnnl_primitive_desc_destroy(pd);
	return rc;
}

static const dnnl_format_tag_t plain_tag[6] = {0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
static const dnnl_format_tag_t last_tag[6] = {0, 0, 0, 0, dnnl_acdb, dnnl_acdeb};

int ens_conv_new(const ens_conv_spec *s, ens_conv **out, const char **what) {
	int rc = 0, nd = s->nsp + 2;
	dnnl_primitive_attr_t attr = 0;
	dnnl_primitive_desc_t pd = 0, hint = 0;
	md_t user[4] = {0}, want[4] = {0};
	dnnl_dims_t xs = {s->n, s->cin}, ws = {s->cout, s->cin}, bs = {s->cout}, ys = {s->n, s->cout};
	ens_conv *c = calloc(1, sizeof *c);
	*out = 0;
	*what = "allocate";
	if (!c) return dnnl_out_of_memory;
	c->threads = s->threads;
	for (int i = 0; i < s->nsp; i++) {
		xs[2 + i] = s->in[i];
		ws[2 + i] = s->kernel[i];
		ys[2 + i] = s->out[i];
	}
	ens_dnnl_threads(s->threads);
	dnnl_format_tag_t act = s->layout == ENS_LAYOUT_ANY ? dnnl_format_tag_any
			: s->layout == ENS_LAYOUT_PLAIN ? plain_tag[nd] : last_tag[nd];
	TRY("describe source", md_new(&user[SRC], nd, xs, plain_tag[nd]));
	TRY("describe filter", md_new(&user[WEI], nd, ws, plain_tag[nd]));
	TRY("describe bias", md_new(&user[BIAS], 1, bs, dnnl_a));
	TRY("describe destination", md_new(&user[DST], nd, ys, plain_tag[nd]));
	TRY("describe source", md_new(&want[SRC], nd, xs, act));
	TRY("describe filter", md_new(&want[WEI], nd, ws, dnnl_format_tag_any));
	TRY("describe bias", md_new(&want[BIAS], 1, bs, dnnl_a));
	TRY("describe destination", md_new(&want[DST], nd, ys, act));
	TRY("create attributes", d.dnnl_primitive_attr_create(&attr));
	TRY("choose scratchpad", d.dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
	if (s->pass != ENS_FORWARD) {
		ens_conv_spec f = *s;
		f.inference = 0;
		TRY("describe forward convolution", make_desc(&f, ENS_FORWARD, want, 0, 0, 0, &hint));
	}
	TRY("describe convolution", make_desc(s, s->pass, want, s->bias, attr, hint, &pd));

	static const dnnl_query_t q[3][4] = {
		{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_weights_md, dnnl_query_dst_md},
		{dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
		{dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
	};
	static const int arg[3][4] = {
		{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
		{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST},
		{DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
	};
	static const int output[3][4] = {{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 1, 0}};
	for (int i = 0; i < 4; i++) {
		if (i == BIAS && (!s->bias || s->pass == ENS_BACKWARD_DATA)) continue;
		md_t in = d.dnnl_primitive_desc_query_md(pd, q[s->pass][i], i == BIAS);
		if ((rc = add_tensor(c, i, arg[s->pass][i], output[s->pass][i], user[i], in, what))) goto fail;
	}
	md_t sp = d.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
	if (sp && d.dnnl_memory_desc_get_size(sp) > 0) {
		TRY("create scratchpad", d.dnnl_memory_create(&c->pad, sp, eng, DNNL_MEMORY_NONE));
		c->pad_off = c->scratch;
		c->scratch += align64(d.dnnl_memory_desc_get_size(sp));
	}
	const char *impl = 0;
	TRY("name implementation", d.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl));
	strncpy(c->impl, impl ? impl : "", sizeof c->impl - 1);
	TRY("create convolution", d.dnnl_primitive_create(&c->prim, pd));
	*out = c;
	c = 0;
fail:
	for (int i = 0; i < 4; i++) { md_free(user[i]); md_free(want[i]); }
	if (pd) d.dnnl_primitive_desc_destroy(pd);
	if (hint) d.dnnl_primitive_desc_destroy(hint);
	if (attr) d.dnnl_primitive_attr_destroy(attr);
	if (c) ens_conv_close(c);
	return rc;
}

size_t ens_conv_scratch(const ens_conv *c) { return c->scratch ? c->scratch + 64 : 0; }
const char *ens_conv_impl(const ens_conv *c) { return c->impl; }
int ens_conv_reorders(const ens_conv *c) { return c->reorders; }

static int reorder(tensor *t, dnnl_stream_t st) {
	dnnl_exec_arg_t a[2] = {
		{DNNL_ARG_FROM, t->output ? t->inner : t->user},
		{DNNL_ARG_TO, t->output ? t->user : t->inner},
	};
	return d.dnnl_primitive_execute(t->reorder, st, 2, a);
}

int ens_conv_run(ens_conv *c, void *src, void *wei, void *bias, void *dst, void *scratch) {
	void *p[4] = {src, wei, bias, dst};
	dnnl_exec_arg_t a[5];
	int rc = 0, n = 0;
	ens_dnnl_threads(c->threads);
	if (!strm && (rc = d.dnnl_stream_create(&strm, eng, dnnl_stream_default_flags))) return rc;
	// The primitives need 64-byte alignment; ens_conv_scratch leaves room for it.
	char *base = (char *)(((size_t)scratch + 63) & ~(size_t)63);
	for (int i = 0; i < 4; i++) {
		tensor *t = &c->t[i];
		if (!c->used[i]) continue;
		if (t->at != p[i]) {
			if ((rc = d.dnnl_memory_set_data_handle(t->user, p[i]))) return rc;
			t->at = p[i];
		}
		if (t->inner && c->scratch_at != base &&
				(rc = d.dnnl_memory_set_data_handle(t->inner, base + t->off))) return rc;
		a[n].arg = t->arg;
		a[n++].memory = t->inner ? t->inner : t->user;
	}
	if (c->pad) {
		if (c->scratch_at != base && (rc = d.dnnl_memory_set_data_handle(c->pad, base + c->pad_off))) return rc;
		a[n].arg = DNNL_ARG_SCRATCHPAD;
		a[n++].memory = c->pad;
	}
	c->scratch_at = base;
	for (int i = 0; i < 4; i++)
		if (c->t[i].reorder && !c->t[i].output && (rc = reorder(&c->t[i], strm))) return rc;
	if ((rc = d.dnnl_primitive_execute(c->prim, strm, n, a))) return rc;
	for (int i = 0; i < 4; i++)
		if (c->t[i].reorder && c->t[i].output && (rc = reorder(&c->t[i], strm))) return rc;
	return d.dnnl_stream_wait(strm);
}

void ens_conv_close(ens_conv *c) {
	if (!c) return;
	for (int i = 0; i < 4; i++) {
		if (c->t[i].reorder) d.dnnl_primitive_destroy(c->t[i].reorder);
		if (c->t[i].inner) d.dnnl_memory_destroy(c->t[i].inner);
		if (c->t[i].user) d.dnnl_memory_destroy(c->t[i].user);
	}
	if (c->pad) d.dnnl_memory_destroy(c->pad);
	if (c->prim) d.dnnl_primitive_destroy(c->prim);
	free(c);
}

int ens_sgemm(long m, long n, long k, const float *a, const float *b, float *c) {
	return d.dnnl_sgemm('N', 'N', m, n, k, 1.f, a, k, b, n, 0.f, c, n);
}
