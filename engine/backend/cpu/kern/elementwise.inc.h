// y[i] = f(x[i]), dx[i] = dy[i] f'(x[i]) and y[i] = a[i] op b[i]. The result
// may be the same tensor as an argument.

typedef struct {
	int op;
	float *y;
	const float *a, *b, *c;
	float s, t;
	long n;
} ew_job;

static void unary_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y;
	const float *x = j->a;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	switch (j->op) {
	case ENS_RELU: EACH(i, lo, hi) y[i] = x[i] < 0 ? 0 : x[i]; break; // keeps NaN
	case ENS_EXP: EACH(i, lo, hi) y[i] = exp_d(x[i]); break;
	case ENS_LOG: EACH(i, lo, hi) y[i] = log_d(x[i]); break;
	case ENS_SQRT: EACH(i, lo, hi) y[i] = sqrtf(x[i]); break;
	case ENS_SQUARE: EACH(i, lo, hi) y[i] = x[i] * x[i]; break;
	case ENS_ABS: EACH(i, lo, hi) y[i] = fabsf(x[i]); break;
	case ENS_NEG: EACH(i, lo, hi) y[i] = -x[i]; break;
	case ENS_RECIP: EACH(i, lo, hi) y[i] = 1 / x[i]; break;
	case ENS_SOFTPLUS: EACH(i, lo, hi) y[i] = softplus_d(x[i]); break;
	case ENS_SIGMOID: EACH(i, lo, hi) y[i] = sigmoid_d(x[i]); break;
	case ENS_TANH: EACH(i, lo, hi) y[i] = tanh_d(x[i]); break;
	case ENS_ERF: EACH(i, lo, hi) y[i] = erf_d(x[i]); break;
	}
}

static void k_unary(ens_pool *p, int op, float *y, const float *x, long n) {
	ew_job j = {op, y, x, 0, 0, 0, 0, n};
	ens_parallel(p, unary_item, &j, pieces(n));
}

// The derivative is taken from x or from y = f(x), whichever is cheaper.
static void unary_grad_item(void *v, long item) {
	const ew_job *j = v;
	float *d = j->y;
	const float *g = j->a, *x = j->b, *y = j->c;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	switch (j->op) {
	case ENS_RELU: EACH(i, lo, hi) d[i] = y[i] > 0 ? g[i] : 0; break;
	case ENS_EXP: EACH(i, lo, hi) d[i] = g[i] * y[i]; break;
	case ENS_LOG: EACH(i, lo, hi) d[i] = g[i] / x[i]; break;
	case ENS_SQRT: EACH(i, lo, hi) d[i] = 0.5f * g[i] / y[i]; break;
	case ENS_SQUARE: EACH(i, lo, hi) d[i] = 2 * x[i] * g[i]; break;
	case ENS_ABS: EACH(i, lo, hi) d[i] = x[i] > 0 ? g[i] : x[i] < 0 ? -g[i] : 0; break;
	case ENS_NEG: EACH(i, lo, hi) d[i] = -g[i]; break;
	case ENS_RECIP: EACH(i, lo, hi) d[i] = -g[i] * y[i] * y[i]; break;
	case ENS_SOFTPLUS: EACH(i, lo, hi) d[i] = g[i] * sigmoid_d(x[i]); break;
	case ENS_SIGMOID: EACH(i, lo, hi) d[i] = g[i] * (y[i] * (1 - y[i])); break;
	case ENS_TANH: EACH(i, lo, hi) d[i] = g[i] * (1 - y[i] * y[i]); break;
	case ENS_ERF: EACH(i, lo, hi) d[i] = g[i] * 1.12837916709551257390 * exp_d(-(double)x[i] * x[i]); break;
	}
}

static void k_unary_grad(ens_pool *p, int op, float *dx, const float *dy, const float *x, const float *y, long n) {
	ew_job j = {op, dx, dy, x, y, 0, 0, n};
	ens_parallel(p, unary_grad_item, &j, pieces(n));
}

#define BINARY_CASES(LOOP, A, B, Y)                                             \
	case ENS_ADD: LOOP Y = A + B; break;                                        \
	case ENS_SUB: LOOP Y = A - B; break;                                        \
	case ENS_MUL: LOOP Y = A * B; break;                                        \
	case ENS_DIV: LOOP Y = A / B; break;                                        \
	case ENS_MIN: LOOP Y = A < B ? A : B; break;                                \
	case ENS_MAX: LOOP Y = A > B ? A : B; break;                                \
	case ENS_RSUB: LOOP Y = B - A; break;                                       \
	case ENS_RDIV: LOOP Y = B / A; break;

static void binary_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y;
	const float *a = j->a, *b = j->b;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	switch (j->op) { BINARY_CASES(EACH(i, lo, hi), a[i], b[i], y[i]) }
}

static void k_binary(ens_pool *p, int op, float *y, const float *a, const float *b, long n) {
	ew_job j = {op, y, a, b, 0, 0, 0, n};
	ens_parallel(p, binary_item, &j, pieces(n));
}

static void affine_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y;
	const float *x = j->a;
	float s = j->s, t = j->t;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) y[i] = s * x[i] + t;
}

// y = scale x + shift
static void k_affine(ens_pool *p, float *y, const float *x, float scale, float shift, long n) {
	ew_job j = {0, y, x, 0, 0, scale, shift, n};
	ens_parallel(p, affine_item, &j, pieces(n));
}

static void axpy_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y;
	const float *x = j->a;
	float s = j->s;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) y[i] += s * x[i];
}

// y += a x
static void k_axpy(ens_pool *p, float *y, const float *x, float a, long n) {
	ew_job j = {0, y, x, 0, 0, a, 0, n};
	ens_parallel(p, axpy_item, &j, pieces(n));
}

static void fill_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y, s = j->s;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) y[i] = s;
}

static void k_fill(ens_pool *p, float *y, float s, long n) {
	ew_job j = {0, y, 0, 0, 0, s, 0, n};
	ens_parallel(p, fill_item, &j, pieces(n));
}
