// y[i] = f(x[i]), dx[i] = dy[i] f'(x[i]) and y[i] = a[i] op b[i]. The result
// may be the same tensor as an argument.

typedef struct {
	int op;
	float *y;
	const float *a, *b, *c;
	float s, t;
	long n;
} ew_job;

// The functions Y of X, each in a loop of its own; codes are counted from BASE.
#define UNARY_CASES(BASE, LOOP, X, Y)                                           \
	case BASE + ENS_RELU: LOOP Y = X < 0 ? 0 : X; break; /* keeps NaN */        \
	case BASE + ENS_EXP: LOOP Y = exp_d(X); break;                              \
	case BASE + ENS_LOG: LOOP Y = log_d(X); break;                              \
	case BASE + ENS_SQRT: LOOP Y = sqrtf(X); break;                             \
	case BASE + ENS_SQUARE: LOOP Y = X * X; break;                              \
	case BASE + ENS_ABS: LOOP Y = fabsf(X); break;                              \
	case BASE + ENS_NEG: LOOP Y = -X; break;                                    \
	case BASE + ENS_RECIP: LOOP Y = 1 / X; break;                               \
	case BASE + ENS_SOFTPLUS: LOOP Y = softplus_d(X); break;                    \
	case BASE + ENS_SIGMOID: LOOP Y = sigmoid_d(X); break;                      \
	case BASE + ENS_TANH: LOOP Y = tanh_d(X); break;                            \
	case BASE + ENS_ERF: LOOP Y = erf_d(X); break;

static void unary_item(void *v, long item) {
	const ew_job *j = v;
	float *y = j->y;
	const float *x = j->a;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	switch (j->op) { UNARY_CASES(0, EACH(i, lo, hi), x[i], y[i]) }
}

static void k_unary(ens_pool *p, int op, float *y, const float *x, long n) {
	ew_job j = {op, y, x, 0, 0, 0, 0, n};
	ens_parallel(p, unary_item, &j, pieces(n));
}

// D = G f'(X): the derivative is taken from X or from Y = f(X), whichever is cheaper.
#define GRAD_CASES(BASE, LOOP, X, Y, G, D)                                      \
	case BASE + ENS_RELU: LOOP D = Y > 0 ? G : 0; break;                        \
	case BASE + ENS_EXP: LOOP D = G * Y; break;                                 \
	case BASE + ENS_LOG: LOOP D = G / X; break;                                 \
	case BASE + ENS_SQRT: LOOP D = 0.5f * G / Y; break;                         \
	case BASE + ENS_SQUARE: LOOP D = 2 * X * G; break;                          \
	case BASE + ENS_ABS: LOOP D = X > 0 ? G : X < 0 ? -G : 0; break;            \
	case BASE + ENS_NEG: LOOP D = -G; break;                                    \
	case BASE + ENS_RECIP: LOOP D = -G * Y * Y; break;                          \
	case BASE + ENS_SOFTPLUS: LOOP D = G * sigmoid_d(X); break;                 \
	case BASE + ENS_SIGMOID: LOOP D = G * (Y * (1 - Y)); break;                 \
	case BASE + ENS_TANH: LOOP D = G * (1 - Y * Y); break;                      \
	case BASE + ENS_ERF: LOOP D = G * 1.12837916709551257390 * exp_d(-(double)X * X); break;

static void unary_grad_item(void *v, long item) {
	const ew_job *j = v;
	float *d = j->y;
	const float *g = j->a, *x = j->b, *y = j->c;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	switch (j->op) { GRAD_CASES(0, EACH(i, lo, hi), x[i], y[i], g[i], d[i]) }
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
