// Sums in double. The order is fixed by the length alone: the same bits for
// every number of threads.

enum { LANES = 16, PARTS = 256 };

// lanes_sum adds the lanes in a fixed tree.
static inline double lanes_sum(const double *s) {
	double t[LANES];
	for (int k = 0; k < LANES; k++) t[k] = s[k];
	for (int w = LANES / 2; w; w /= 2)
		for (int k = 0; k < w; k++) t[k] += t[k + w];
	return t[0];
}

// dot_run is sum a[i] b[i], or sum a[i] where b is null.
static double dot_run(const float *a, const float *b, long n) {
	double s[LANES] = {0};
	long i = 0;
	if (b) {
		for (; i + LANES <= n; i += LANES)
			for (int k = 0; k < LANES; k++) s[k] += (double)a[i + k] * b[i + k];
		for (; i < n; i++) s[i % LANES] += (double)a[i] * b[i];
	} else {
		for (; i + LANES <= n; i += LANES)
			for (int k = 0; k < LANES; k++) s[k] += a[i + k];
		for (; i < n; i++) s[i % LANES] += a[i];
	}
	return lanes_sum(s);
}

static double abs_run(const float *a, long n) {
	double s[LANES] = {0};
	long i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++) s[k] += fabsf(a[i + k]);
	for (; i < n; i++) s[i % LANES] += fabsf(a[i]);
	return lanes_sum(s);
}

typedef struct {
	const float *a, *b;
	long n, len;
	double part[PARTS];
} sum_job;

static void sum_item(void *v, long item) {
	sum_job *j = v;
	long lo = item * j->len, n = MIN(j->len, j->n - lo);
	j->part[item] = dot_run(j->a + lo, j->b ? j->b + lo : 0, n);
}

static void sum_abs_item(void *v, long item) {
	sum_job *j = v;
	long lo = item * j->len, n = MIN(j->len, j->n - lo);
	j->part[item] = abs_run(j->a + lo, n);
}

static double sum_parts(ens_pool *p, ens_item fn, sum_job *j) {
	j->len = MAX(4096, (j->n + PARTS - 1) / PARTS);
	long parts = (j->n + j->len - 1) / j->len;
	ens_parallel(p, fn, j, parts);
	double s = 0;
	for (long i = 0; i < parts; i++) s += j->part[i];
	return s;
}

static void k_sum(ens_pool *p, double *out, const float *a, const float *b, long n) {
	sum_job j = {.a = a, .b = b, .n = n};
	*out = sum_parts(p, sum_item, &j);
}

static void k_sum_abs(ens_pool *p, double *out, const float *a, long n) {
	sum_job j = {.a = a, .n = n};
	*out = sum_parts(p, sum_abs_item, &j);
}

typedef struct {
	float *y, *var;
	const float *a, *b;
	float scale;
	long outer, mid, inner;
} mid_job;

static void sum_mid_item(void *v, long m) {
	const mid_job *j = v;
	double s = 0;
	for (long o = 0; o < j->outer; o++) {
		long at = (o * j->mid + m) * j->inner;
		s += dot_run(j->a + at, j->b ? j->b + at : 0, j->inner);
	}
	j->y[m] = s;
}

// y[m] = sum over o, i of a[o][m][i] (times b[o][m][i] unless b is null)
static void k_sum_mid(ens_pool *p, float *y, const float *a, const float *b, long outer, long mid, long inner) {
	mid_job j = {y, 0, a, b, 1, outer, mid, inner};
	ens_parallel(outer * mid * inner < 4096 ? 0 : p, sum_mid_item, &j, mid);
}

static void moments_item(void *v, long m) {
	const mid_job *j = v;
	double s = 0, n = (double)j->outer * j->inner, q = 0;
	for (long o = 0; o < j->outer; o++) s += dot_run(j->a + (o * j->mid + m) * j->inner, 0, j->inner);
	double mean = s / n;
	for (long o = 0; o < j->outer; o++) {
		const float *x = j->a + (o * j->mid + m) * j->inner;
		double t[LANES] = {0};
		long i = 0;
		for (; i + LANES <= j->inner; i += LANES)
			for (int k = 0; k < LANES; k++) {
				double e = x[i + k] - mean;
				t[k] += e * e;
			}
		for (; i < j->inner; i++) t[i % LANES] += (x[i] - mean) * (x[i] - mean);
		q += lanes_sum(t);
	}
	j->y[m] = mean;
	j->var[m] = q / n;
}

// mean[m] and variance[m] (divisor: the count) over o and i, in two passes.
static void k_moments_mid(ens_pool *p, float *mean, float *var, const float *x, long outer, long mid, long inner) {
	mid_job j = {mean, var, x, 0, 1, outer, mid, inner};
	ens_parallel(outer * mid * inner < 4096 ? 0 : p, moments_item, &j, mid);
}

enum { STRIP = 512 };

static void sum_axis_item(void *v, long item) {
	const mid_job *j = v;
	long strips = (j->inner + STRIP - 1) / STRIP;
	long o = item / strips, lo = item % strips * STRIP, n = MIN(STRIP, j->inner - lo);
	if (j->inner == 1) {
		j->y[o] = j->scale * dot_run(j->a + o * j->mid, 0, j->mid);
		return;
	}
	double s[STRIP] = {0};
	for (long m = 0; m < j->mid; m++) {
		const float *x = j->a + (o * j->mid + m) * j->inner + lo;
		for (long i = 0; i < n; i++) s[i] += x[i];
	}
	float *y = j->y + o * j->inner + lo;
	for (long i = 0; i < n; i++) y[i] = j->scale * s[i];
}

// y[o][i] = scale times the sum over m of x[o][m][i]
static void k_sum_axis(ens_pool *p, float *y, const float *x, float scale, long outer, long mid, long inner) {
	mid_job j = {y, 0, x, 0, scale, outer, mid, inner};
	ens_parallel(outer * mid * inner < 4096 ? 0 : p, sum_axis_item, &j, outer * ((inner + STRIP - 1) / STRIP));
}
