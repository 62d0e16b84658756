// Sets: the rows of a sample in x[samples][m][inner], point by point. A strip of points
// is copied and sorted along the rows by a network of comparisons, which is one simple loop
// over the strip for each comparison; sums over sorted values do not depend on the order of
// rows. NaN does not take part in the sort; a flag marks it.

typedef struct {
	int kind;
	float *y, *dx;
	const float *x, *s, *dy;
	long samples, m, inner, first, strip;
	double pair;
} set_job;

enum { SET_STRIP = 64 };

// set_plan is how many strips there are; those of large sets are narrow.
static long set_plan(set_job *j) {
	j->strip = MAX(1, MIN(SET_STRIP, ENS_SET_ROOM / j->m));
	return j->samples * ((j->inner + j->strip - 1) / j->strip);
}

// set_at is where the strip of an item begins in x, its place among one row a sample, and its length.
static inline long set_at(const set_job *j, long item, long *place, long *n) {
	long strips = (j->inner + j->strip - 1) / j->strip, sample = item / strips, lo = item % strips * j->strip;
	*place = sample * j->inner + lo;
	*n = MIN(j->strip, j->inner - lo);
	return sample * j->m * j->inner + lo;
}

// SET_NETWORK calls COMPARE(a, b), a < b, for rows of which the lesser is to come first:
// merge exchange sort, Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M.
#define SET_NETWORK(m, COMPARE)                                                     \
	if ((m) > 1) {                                                                   \
		long top = 1;                                                                \
		while (2 * top < (m)) top *= 2;                                              \
		for (long p = top; p > 0; p /= 2)                                            \
			for (long q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {            \
				for (long a = 0; a < (m) - d; a++)                                   \
					if ((a & p) == r) COMPARE(a, a + d);                             \
				if (q == p) break;                                                   \
			}                                                                        \
	}

static void set_order(float *b, long n, long lo, long hi) {
#define COMPARE(i, k) do {                                                           \
		float *u = b + (lo + (i)) * n, *v = b + (lo + (k)) * n;                      \
		EACH(l, 0, n) {                                                              \
			float s = u[l], t = v[l];                                                \
			u[l] = t < s ? t : s;                                                    \
			v[l] = t < s ? s : t;                                                    \
		}                                                                            \
	} while (0)
	SET_NETWORK(hi - lo, COMPARE)
#undef COMPARE
}

// set_load copies a strip; bad is NaN where one of the rows is, else 0.
static void set_load(const set_job *j, const float *x, float *b, float *bad, long n) {
	EACH(l, 0, n) bad[l] = 0;
	for (long m = 0; m < j->m; m++) {
		const float *from = x + m * j->inner;
		float *to = b + m * n;
		EACH(l, 0, n) {
			to[l] = from[l];
			bad[l] = from[l] != from[l] ? from[l] : bad[l];
		}
	}
}

// set_sum adds sorted rows.
static void set_sum(const float *b, double *s, long m, long n) {
	EACH(l, 0, n) s[l] = 0;
	for (long k = 0; k < m; k++) {
		const float *v = b + k * n;
		EACH(l, 0, n) s[l] += v[l];
	}
}

static void set_pool_item(void *v, long item) {
	const set_job *j = v;
	float b[ENS_SET_ROOM], bad[SET_STRIP];
	double s[SET_STRIP], q[SET_STRIP];
	long place, n, at = set_at(j, item, &place, &n), m = j->m;
	float *y = j->y + place;
	set_load(j, j->x + at, b, bad, n);
	set_order(b, n, 0, m);
	switch (j->kind) {
	case ENS_SET_MIN:
		EACH(l, 0, n) y[l] = b[l] + 0.0f + bad[l]; // of two zeros the positive one
		return;
	case ENS_SET_MAX:
		EACH(l, 0, n) y[l] = b[(m - 1) * n + l] + 0.0f + bad[l];
		return;
	}
	set_sum(b, s, m, n);
	if (j->kind == ENS_SET_SUM) {
		EACH(l, 0, n) y[l] = s[l];
		return;
	}
	EACH(l, 0, n) s[l] /= m;
	if (j->kind == ENS_SET_MEAN) {
		EACH(l, 0, n) y[l] = s[l];
		return;
	}
	EACH(l, 0, n) q[l] = 0;
	for (long k = 0; k < m; k++) {
		const float *x = b + k * n;
		EACH(l, 0, n) {
			double d = x[l] - s[l];
			q[l] += d * d;
		}
	}
	EACH(l, 0, n) y[l] = sqrt(q[l] / (m - 1));
}

// y[n][i] of x[n][m][i] over m.
static void k_set_pool(ens_pool *p, int kind, float *y, const float *x, long samples, long m, long inner) {
	set_job j = {.kind = kind, .y = y, .x = x, .samples = samples, .m = m, .inner = inner};
	long n = set_plan(&j);
	ens_parallel(samples * m * inner < 4096 ? 0 : p, set_pool_item, &j, n);
}

static void set_pool_grad_item(void *v, long item) {
	const set_job *j = v;
	float b[ENS_SET_ROOM], bad[SET_STRIP];
	double s[SET_STRIP], f[SET_STRIP];
	long place, n, at = set_at(j, item, &place, &n), m = j->m;
	const float *x = j->x + at, *y = j->s + place, *dy = j->dy + place;
	float *dx = j->dx + at;
	if (j->kind == ENS_SET_STD) {
		set_load(j, x, b, bad, n);
		set_order(b, n, 0, m);
		set_sum(b, s, m, n);
		EACH(l, 0, n) {
			s[l] /= m;
			double sd = y[l] < 1e-6f ? 1e-6 : y[l];
			f[l] = dy[l] / ((m - 1) * sd);
		}
		for (long k = 0; k < m; k++) EACH(l, 0, n) dx[k * j->inner + l] = (x[k * j->inner + l] - s[l]) * f[l];
		return;
	}
	EACH(l, 0, n) s[l] = 0;
	for (long k = 0; k < m; k++) EACH(l, 0, n) s[l] += x[k * j->inner + l] == y[l];
	EACH(l, 0, n) f[l] = dy[l] / s[l];
	for (long k = 0; k < m; k++) EACH(l, 0, n) dx[k * j->inner + l] = x[k * j->inner + l] == y[l] ? f[l] : 0;
}

// The gradient of set_pool with standard deviation, minimum or maximum, from its result y.
static void k_set_pool_grad(ens_pool *p, int kind, float *dx, const float *x, const float *y, const float *dy,
		long samples, long m, long inner) {
	set_job j = {.kind = kind, .dx = dx, .x = x, .s = y, .dy = dy, .samples = samples, .m = m, .inner = inner};
	long n = set_plan(&j);
	ens_parallel(samples * m * inner < 4096 ? 0 : p, set_pool_grad_item, &j, n);
}

// set_spread adds to s, times w, the sum of |xi - xj| over i < j of sorted rows lo to hi, as
// sum (2k - M + 1) (xk - y).
static void set_spread(const float *b, const float *y, double *s, double w, long n, long lo, long hi) {
	for (long k = lo; k < hi; k++) {
		const float *x = b + k * n;
		double c = w * (double)(2 * (k - lo) - (hi - lo) + 1);
		EACH(l, 0, n) s[l] += c * ((double)x[l] - y[l]);
	}
}

static void set_crps_item(void *v, long item) {
	const set_job *j = v;
	float b[ENS_SET_ROOM], bad[SET_STRIP];
	double near[SET_STRIP], s[SET_STRIP];
	long place, n, at = set_at(j, item, &place, &n), m = j->m;
	const float *y = j->s + place;
	set_load(j, j->x + at, b, bad, n);
	EACH(l, 0, n) s[l] = near[l] = 0;
	if (j->first) {
		set_order(b, n, 0, j->first);
		set_order(b, n, j->first, m);
		set_spread(b, y, s, -j->pair, n, 0, j->first);
		set_spread(b, y, s, -j->pair, n, j->first, m);
	}
	set_order(b, n, 0, m);
	set_spread(b, y, s, j->pair, n, 0, m);
	for (long k = 0; k < m; k++) {
		const float *x = b + k * n;
		EACH(l, 0, n) near[l] += fabs((double)x[l] - y[l]);
	}
	float *score = j->y + place;
	EACH(l, 0, n) score[l] = near[l] / m - s[l] + bad[l];
}

// set_signs adds to s, at the row that each value came from, w times the sum of sign(xi - xj) over
// the rows lo to hi, which it sorts together with where they came from.
static void set_signs(float *b, int *from, float *s, float w, int *begin, long n, long lo, long hi) {
	long m = hi - lo;
#define COMPARE(i, k) do {                                                           \
		float *u = b + (lo + (i)) * n, *v = b + (lo + (k)) * n;                      \
		int *e = from + (lo + (i)) * n, *f = from + (lo + (k)) * n;                  \
		EACH(l, 0, n) {                                                              \
			float s = u[l], t = v[l];                                                \
			int g = e[l], h = f[l];                                                  \
			u[l] = t < s ? t : s;                                                    \
			v[l] = t < s ? s : t;                                                    \
			e[l] = t < s ? h : g;                                                    \
			f[l] = t < s ? g : h;                                                    \
		}                                                                            \
	} while (0)
	SET_NETWORK(m, COMPARE)
#undef COMPARE
	// Equal values share the sum of the places before the first and behind the last of them.
	EACH(l, 0, n) begin[l] = 0;
	for (long k = 1; k < m; k++) {
		const float *x = b + (lo + k) * n;
		EACH(l, 0, n) begin[k * n + l] = x[l] == x[l - n] ? begin[(k - 1) * n + l] : (int)k;
	}
	int end[SET_STRIP];
	EACH(l, 0, n) end[l] = m - 1;
	for (long k = m - 1; k >= 0; k--) {
		const float *x = b + (lo + k) * n;
		for (long l = 0; l < n; l++) {
			if (k + 1 < m && x[l] != x[l + n]) end[l] = k;
			s[from[(lo + k) * n + l] * n + l] += w * (float)(begin[k * n + l] + end[l] - (m - 1));
		}
	}
}

static void set_crps_grad_item(void *v, long item) {
	const set_job *j = v;
	float b[ENS_SET_ROOM], s[ENS_SET_ROOM], bad[SET_STRIP];
	int from[ENS_SET_ROOM], begin[ENS_SET_ROOM];
	long place, n, at = set_at(j, item, &place, &n), m = j->m;
	const float *x = j->x + at, *y = j->s + place, *dy = j->dy + place;
	set_load(j, x, b, bad, n);
	EACH(l, 0, n) bad[l] = y[l] != y[l] ? y[l] : bad[l];
	for (long k = 0; k < m; k++) EACH(l, 0, n) {
		from[k * n + l] = k;
		s[k * n + l] = 0;
	}
	if (j->first) {
		set_signs(b, from, s, -1, begin, n, 0, j->first);
		set_signs(b, from, s, -1, begin, n, j->first, m);
	}
	set_signs(b, from, s, 1, begin, n, 0, m);
	for (long k = 0; k < m; k++) {
		const float *e = x + k * j->inner;
		float *dx = j->dx + at + k * j->inner;
		EACH(l, 0, n) {
			double side = (double)(e[l] > y[l]) - (double)(e[l] < y[l]);
			dx[l] = (side / m - j->pair * s[k * n + l]) * dy[l] + bad[l];
		}
	}
}

// score[n][i] = (1/m) sum |xi - y| - pair times the sum of |xi - xj| over i < j, or only over pairs of
// one of the first rows and one of the others; or, if score is null, dx[n][m][i] its derivative times dy.
static void k_set_crps(ens_pool *p, float *score, float *dx, const float *x, const float *y, const float *dy,
		long samples, long m, long inner, long first, double pair) {
	set_job j = {.y = score, .dx = dx, .x = x, .s = y, .dy = dy, .samples = samples, .m = m, .inner = inner, .first = first, .pair = pair};
	long n = set_plan(&j);
	ens_parallel(samples * m * inner < 4096 ? 0 : p, score ? set_crps_item : set_crps_grad_item, &j, n);
}
