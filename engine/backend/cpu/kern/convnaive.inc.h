// Convolutions on plain tensors by the sum of their definition, in double, for any stride, dilation
// and padding. Padding is no term of a sum: unlike products with zeros, it stays
// apart from NaN and infinities of the filter. Faster kernels leave operands that are not finite
// to these.

enum { // the geometry, as Go fills it (convnaive.go)
	N_N, N_CI, N_CO,      // batch and channels
	N_IN, N_OUT = N_IN + 3, N_K = N_OUT + 3, N_STRIDE = N_K + 3, N_DILATION = N_STRIDE + 3,
	N_LO = N_DILATION + 3, N_MODE = N_LO + 3, // of levels, rows, columns
	N_RELU = N_MODE + 3, N_COUNT
};

typedef struct {
	const long *g;
	const float *x, *w, *bias, *dy;
	float *y;
} naive_job;

// naive_source is the place of the source on an axis under a tap of the window of a place of the result;
// −1 is padding with zeros.
INLINE long naive_source(const long *g, int axis, long out, long tap) {
	return source(out * g[N_STRIDE + axis] + tap * g[N_DILATION + axis], g[N_IN + axis], g[N_LO + axis], g[N_MODE + axis]);
}

// An item is a row of the result.
static void naive_item(void *v, long item) {
	const naive_job *j = v;
	const long *g = j->g, *in = g + N_IN, *out = g + N_OUT, *kernel = g + N_K;
	const long h = item % out[1], d = item / out[1] % out[0], co = item / out[1] / out[0] % g[N_CO], n = item / out[1] / out[0] / g[N_CO];
	for (long w = 0; w < out[2]; w++) {
		double sum = j->bias ? j->bias[co] : 0;
		for (long ci = 0; ci < g[N_CI]; ci++)
			for (long kd = 0; kd < kernel[0]; kd++)
				for (long kh = 0; kh < kernel[1]; kh++) {
					const long sd = naive_source(g, 0, d, kd), sh = naive_source(g, 1, h, kh);
					if (sd < 0 || sh < 0) continue;
					const float *x = j->x + (((n * g[N_CI] + ci) * in[0] + sd) * in[1] + sh) * in[2];
					const float *f = j->w + (((co * g[N_CI] + ci) * kernel[0] + kd) * kernel[1] + kh) * kernel[2];
					for (long kw = 0; kw < kernel[2]; kw++) {
						const long sw = naive_source(g, 2, w, kw);
						if (sw >= 0) sum += (double)x[sw] * f[kw];
					}
				}
		float t = sum;
		j->y[item * out[2] + w] = g[N_RELU] && t < 0 ? 0 : t;
	}
}

// An item is one channel of one sample of the source's gradient, to which all results add.
static void naive_data_item(void *v, long item) {
	const naive_job *j = v;
	const long *g = j->g, *in = g + N_IN, *out = g + N_OUT, *kernel = g + N_K, ci = item % g[N_CI], n = item / g[N_CI];
	float *dx = j->y + item * in[0] * in[1] * in[2];
	memset(dx, 0, in[0] * in[1] * in[2] * sizeof *dx);
	for (long co = 0; co < g[N_CO]; co++)
		for (long d = 0; d < out[0]; d++)
			for (long h = 0; h < out[1]; h++)
				for (long kd = 0; kd < kernel[0]; kd++)
					for (long kh = 0; kh < kernel[1]; kh++) {
						const long sd = naive_source(g, 0, d, kd), sh = naive_source(g, 1, h, kh);
						if (sd < 0 || sh < 0) continue;
						const float *dy = j->dy + (((n * g[N_CO] + co) * out[0] + d) * out[1] + h) * out[2];
						const float *f = j->w + (((co * g[N_CI] + ci) * kernel[0] + kd) * kernel[1] + kh) * kernel[2];
						float *to = dx + (sd * in[1] + sh) * in[2];
						for (long w = 0; w < out[2]; w++)
							for (long kw = 0; kw < kernel[2]; kw++) {
								const long sw = naive_source(g, 2, w, kw);
								if (sw >= 0) to[sw] += dy[w] * f[kw];
							}
					}
}

// An item is a filter between two channels.
static void naive_filter_item(void *v, long item) {
	const naive_job *j = v;
	const long *g = j->g, *in = g + N_IN, *out = g + N_OUT, *kernel = g + N_K, ci = item % g[N_CI], co = item / g[N_CI];
	float *dw = j->y + item * kernel[0] * kernel[1] * kernel[2];
	for (long kd = 0; kd < kernel[0]; kd++)
		for (long kh = 0; kh < kernel[1]; kh++)
			for (long kw = 0; kw < kernel[2]; kw++) {
				double sum = 0;
				for (long n = 0; n < g[N_N]; n++)
					for (long d = 0; d < out[0]; d++)
						for (long h = 0; h < out[1]; h++) {
							const long sd = naive_source(g, 0, d, kd), sh = naive_source(g, 1, h, kh);
							if (sd < 0 || sh < 0) continue;
							const float *x = j->x + (((n * g[N_CI] + ci) * in[0] + sd) * in[1] + sh) * in[2];
							const float *dy = j->dy + (((n * g[N_CO] + co) * out[0] + d) * out[1] + h) * out[2];
							for (long w = 0; w < out[2]; w++) {
								const long sw = naive_source(g, 2, w, kw);
								if (sw >= 0) sum += (double)x[sw] * dy[w];
							}
						}
				*dw++ = sum;
			}
}

// y = conv(x, w) (+ bias) (ReLU).
static void k_conv_naive(ens_pool *p, float *y, const float *x, const float *w, const float *bias, const long *g) {
	naive_job j = {g, x, w, bias, 0, y};
	ens_parallel(p, naive_item, &j, g[N_N] * g[N_CO] * g[N_OUT] * g[N_OUT + 1]);
}

// dx = the adjoint of dy.
static void k_conv_naive_data(ens_pool *p, float *dx, const float *dy, const float *w, const long *g) {
	naive_job j = {g, 0, w, 0, dy, dx};
	ens_parallel(p, naive_data_item, &j, g[N_N] * g[N_CI]);
}

// dw = the gradient of the filter between x and dy.
static void k_conv_naive_filter(ens_pool *p, float *dw, const float *x, const float *dy, const long *g) {
	naive_job j = {g, x, 0, 0, dy, dw};
	ens_parallel(p, naive_filter_item, &j, g[N_CO] * g[N_CI]);
}

typedef struct { float *y; long n; int relu, *infinite; } finite_job;

static void finite_item(void *v, long item) {
	const finite_job *j = v;
	float *y = j->y, s = 0;
	const long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	vec all = {};
	long i = lo;
	if (j->relu)
		for (; i + VL <= hi; i += VL) {
			vec t = load(y + i);
			all += t - t;
			store(y + i, relu_of(t));
		}
	else
		for (; i + VL <= hi; i += VL) all += load(y + i) - load(y + i);
	for (; i < hi; i++) {
		s += y[i] - y[i];
		if (j->relu && y[i] <= 0) y[i] = 0;
	}
	if (s != s || any_nan(all)) __atomic_store_n(j->infinite, 1, __ATOMIC_RELAXED);
}

// y becomes its ReLU, if asked for, which keeps NaN; infinite becomes 1 if a value of y was NaN or infinite.
static void k_finite(ens_pool *p, float *y, int relu, int *infinite, long n) {
	finite_job j = {y, n, relu, infinite};
	ens_parallel(p, finite_item, &j, pieces(n));
}
