// Softmax, and attention within sets: products of rows of a sample, and sums of its rows.

typedef struct {
	float *y;
	const float *x, *z;
	long outer, mid, inner, strips;
} softmax_job;

enum { SOFTMAX_STRIP = 128 };

static long softmax_plan(softmax_job *j) {
	j->strips = (j->inner + SOFTMAX_STRIP - 1) / SOFTMAX_STRIP;
	return j->outer * j->strips;
}

static void softmax_item(void *v, long item) {
	const softmax_job *j = v;
	long lo = item % j->strips * SOFTMAX_STRIP, n = MIN(SOFTMAX_STRIP, j->inner - lo), step = j->inner;
	const float *x = j->x + item / j->strips * j->mid * step + lo;
	float *y = j->y + (x - j->x), top[SOFTMAX_STRIP];
	double s[SOFTMAX_STRIP];
	EACH(l, 0, n) top[l] = x[l], s[l] = 0;
	for (long k = 1; k < j->mid; k++) EACH(l, 0, n) top[l] = x[k * step + l] > top[l] ? x[k * step + l] : top[l];
	for (long k = 0; k < j->mid; k++) EACH(l, 0, n) {
		double e = exp_d((double)x[k * step + l] - top[l]);
		s[l] += e;
		y[k * step + l] = e;
	}
	EACH(l, 0, n) s[l] = 1 / s[l];
	for (long k = 0; k < j->mid; k++) EACH(l, 0, n) y[k * step + l] *= s[l];
}

// y[o][m][i] = exp(x) over its sum over m.
static void k_softmax(ens_pool *p, float *y, const float *x, long outer, long mid, long inner) {
	softmax_job j = {y, x, 0, outer, mid, inner, 0};
	long n = softmax_plan(&j);
	ens_parallel(outer * mid * inner < 4096 ? 0 : p, softmax_item, &j, n);
}

static void softmax_grad_item(void *v, long item) {
	const softmax_job *j = v;
	long lo = item % j->strips * SOFTMAX_STRIP, n = MIN(SOFTMAX_STRIP, j->inner - lo), step = j->inner;
	long at = item / j->strips * j->mid * step + lo;
	const float *x = j->x + at, *z = j->z + at;
	float *y = j->y + at;
	double s[SOFTMAX_STRIP];
	EACH(l, 0, n) s[l] = 0;
	for (long k = 0; k < j->mid; k++) EACH(l, 0, n) s[l] += (double)x[k * step + l] * z[k * step + l];
	for (long k = 0; k < j->mid; k++) EACH(l, 0, n) y[k * step + l] = x[k * step + l] * (z[k * step + l] - s[l]);
}

// dx = y (dy - the sum of y dy over m)
static void k_softmax_grad(ens_pool *p, float *dx, const float *y, const float *dy, long outer, long mid, long inner) {
	softmax_job j = {dx, y, dy, outer, mid, inner, 0};
	long n = softmax_plan(&j);
	ens_parallel(outer * mid * inner < 4096 ? 0 : p, softmax_grad_item, &j, n);
}

// Points of a field are u * a * b; the weights of a head are those of cell a.
typedef struct {
	float *y;
	const float *w, *x;
	long samples, queries, keys, heads, per, u, a, b;
	int transposed;
} attention_job;

static void set_dot_item(void *v, long item) {
	const attention_job *j = v;
	long plane = j->u * j->a * j->b, row = j->heads * j->per * plane;
	long h = item % j->heads, q = item / j->heads, n = q / j->queries;
	const float *x = j->w + q * row + h * j->per * plane; // the query
	for (long i = 0; i < j->keys; i++) {
		const float *k = j->x + (n * j->keys + i) * row + h * j->per * plane;
		float *y = j->y + (item * j->keys + i) * j->a;
		if (j->a == 1) { // all channels and points in one run
			*y = dot_run(x, k, j->per * plane);
			continue;
		}
		if (j->b > 1) {
			for (long a = 0; a < j->a; a++) {
				double s = 0;
				for (long c = 0; c < j->per * j->u; c++) s += dot_run(x + (c * j->a + a) * j->b, k + (c * j->a + a) * j->b, j->b);
				y[a] = s;
			}
			continue;
		}
		memset(y, 0, j->a * sizeof *y);
		for (long c = 0; c < j->per * j->u; c++) {
			const float *s = x + c * j->a, *t = k + c * j->a;
			EACH(a, 0, j->a) y[a] += s[a] * t[a];
		}
	}
}

// w[n][j][h][i][a] = the sum over channels of head h, over u and b, of q[n][j] k[n][i].
static void k_set_dot(ens_pool *p, float *w, const float *q, const float *k, const long *g) {
	attention_job j = {w, q, k, g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], 0};
	ens_parallel(j.samples * j.queries * j.keys * j.heads * j.per * j.u * j.a * j.b < 4096 ? 0 : p, set_dot_item, &j,
		j.samples * j.queries * j.heads);
}

enum { MIX_STRIP = 512 };

static void set_mix_item(void *v, long item) {
	const attention_job *j = v;
	long run = j->a * j->b, plane = j->u * run, row = j->heads * j->per * plane;
	long u = item % j->u, c = item / j->u % (j->heads * j->per), n = item / j->u / (j->heads * j->per), h = c / j->per;
	long in = j->transposed ? j->queries : j->keys, out = j->transposed ? j->keys : j->queries;
	long wq = j->heads * j->keys * j->a, wk = j->a; // distances of weights of queries and of keys
	long wi = j->transposed ? wq : wk, wo = j->transposed ? wk : wq;
	const float *w = j->w + n * j->queries * wq + h * j->keys * j->a;
	const float *x = j->x + n * in * row + c * plane + u * run;
	float *y = j->y + n * out * row + c * plane + u * run;
	long length = j->b > 1 ? j->b : run; // of runs that are cut into strips
	for (long at = 0; at < run; at += length)
		for (long lo = at; lo < at + length; lo += MIX_STRIP) {
			long m = MIN(MIX_STRIP, at + length - lo);
			for (long o = 0; o < out; o++) {
				float s[MIX_STRIP];
				EACH(l, 0, m) s[l] = 0;
				for (long i = 0; i < in; i++) {
					const float *from = x + i * row + lo, *f = w + o * wo + i * wi;
					if (j->b > 1) {
						float e = f[lo / j->b];
						EACH(l, 0, m) s[l] += e * from[l];
					} else {
						f += lo;
						EACH(l, 0, m) s[l] += f[l] * from[l];
					}
				}
				float *to = y + o * row + lo;
				EACH(l, 0, m) to[l] = s[l];
			}
		}
}

// y[n][j] = the sum over i of w[n][j][h][i][a] x[n][i], or transposed y[n][i] = over j of w x[n][j].
static void k_set_mix(ens_pool *p, float *y, const float *w, const float *x, const long *g, int transposed) {
	attention_job j = {y, w, x, g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], transposed};
	ens_parallel(j.samples * j.queries * j.keys * j.heads * j.per * j.u * j.a * j.b < 4096 ? 0 : p, set_mix_item, &j,
		j.samples * j.heads * j.per * j.u);
}
