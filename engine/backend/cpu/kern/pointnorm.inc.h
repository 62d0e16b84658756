// Standardising the channels of each point of a field [rows][channels][points]: a strip of points is copied together once, with all of its
// channels, and read again from there.

enum { POINT_ROOM = 8192, POINT_STRIP = 128 }; // values and points of a strip, at most

typedef struct {
	float *y;
	const float *x, *dy, *gamma, *beta;
	float eps;
	long rows, c, s, strip, strips; // points of a strip, strips of a row
	long each, items;               // strips of an item
	double *sums;                   // of items: [2·c]
} pointnorm_job;

// pointnorm_load copies a strip of n points to d, without their means, and gives one over the root of variance and eps.
static void pointnorm_load(const pointnorm_job *j, const float *x, float *restrict d, float *restrict r, long n) {
	float mean[POINT_STRIP];
	EACH(l, 0, n) mean[l] = 0, r[l] = 0;
	for (long k = 0; k < j->c; k++, x += j->s) EACH(l, 0, n) {
		float v = x[l];
		d[k * n + l] = v;
		mean[l] += v;
	}
	float part = 1.0f / j->c;
	EACH(l, 0, n) mean[l] *= part;
	for (long k = 0; k < j->c; k++) EACH(l, 0, n) {
		float v = d[k * n + l] - mean[l];
		d[k * n + l] = v;
		r[l] += v * v;
	}
	EACH(l, 0, n) {
		float v = r[l] * part + j->eps;
		r[l] = 1 / sqrtf(v) + (v - v); // a variance beyond float32 gives NaN, not the root's 0
	}
}

static void pointnorm_strip(const pointnorm_job *j, long at, long n) {
	float d[POINT_ROOM], r[POINT_STRIP];
	pointnorm_load(j, j->x + at, d, r, n);
	for (long k = 0; k < j->c; k++) {
		float *y = j->y + at + k * j->s, gamma = j->gamma[k], beta = j->beta[k];
		EACH(l, 0, n) y[l] = d[k * n + l] * r[l] * gamma + beta;
	}
}

static void pointnorm_grad_strip(const pointnorm_job *j, long at, long n) {
	float d[POINT_ROOM], r[POINT_STRIP], g[POINT_ROOM], sum[POINT_STRIP], dot[POINT_STRIP];
	pointnorm_load(j, j->x + at, d, r, n);
	EACH(l, 0, n) sum[l] = dot[l] = 0;
	for (long k = 0; k < j->c; k++) {
		const float *dy = j->dy + at + k * j->s;
		float gamma = j->gamma[k];
		EACH(l, 0, n) {
			float v = dy[l] * gamma;
			g[k * n + l] = v;
			sum[l] += v;
			dot[l] += v * d[k * n + l];
		}
	}
	float part = 1.0f / j->c;
	EACH(l, 0, n) sum[l] *= part, dot[l] *= part * r[l] * r[l];
	for (long k = 0; k < j->c; k++) {
		float *y = j->y + at + k * j->s;
		EACH(l, 0, n) y[l] = r[l] * (g[k * n + l] - sum[l] - d[k * n + l] * dot[l]);
	}
}

static void pointnorm_sums_strip(const pointnorm_job *j, long at, long n, double *total) {
	float d[POINT_ROOM], r[POINT_STRIP];
	pointnorm_load(j, j->x + at, d, r, n);
	for (long k = 0; k < j->c; k++) {
		const float *dy = j->dy + at + k * j->s;
		vec sum = {}, dot = {};
		for (long l = 0; l < n; l += VL) {
			vec v = load_first(dy + l, n - l);
			sum += v;
			dot += v * (load_first(d + k * n + l, n - l) * load_first(r + l, n - l));
		}
		for (int i = 0; i < VL; i++) total[k] += sum[i], total[j->c + k] += dot[i];
	}
}

INLINE void pointnorm_each(const pointnorm_job *j, long item, const int what) {
	double *total = j->sums + item * 2 * j->c;
	if (what == 2) memset(total, 0, 2 * j->c * sizeof *total);
	for (long i = item * j->each; i < MIN(j->rows * j->strips, (item + 1) * j->each); i++) {
		long lo = i % j->strips * j->strip, n = MIN(j->strip, j->s - lo), at = i / j->strips * j->c * j->s + lo;
		if (what == 0) pointnorm_strip(j, at, n);
		if (what == 1) pointnorm_grad_strip(j, at, n);
		if (what == 2) pointnorm_sums_strip(j, at, n, total);
	}
}

static void pointnorm_item(void *v, long item) { pointnorm_each(v, item, 0); }
static void pointnorm_grad_item(void *v, long item) { pointnorm_each(v, item, 1); }
static void pointnorm_sums_item(void *v, long item) { pointnorm_each(v, item, 2); }

// What is 0: y = (x - mean) / sqrt(variance + eps) gamma + beta of x [rows c s], moments over c; 1: its gradient by x from dy; 2: sums
// [2 c] of dy, and of dy times standardised x, for which scratch has room of its items.
static void k_pointnorm(ens_pool *p, int what, float *y, const float *x, const float *dy, const float *gamma, const float *beta, float *scratch, double eps, long rows, long c, long s, long items) {
	pointnorm_job j = {.y = y, .x = x, .dy = dy, .gamma = gamma, .beta = beta, .eps = eps, .rows = rows, .c = c, .s = s, .items = items};
	j.strip = MIN(POINT_STRIP, POINT_ROOM / c);
	if (j.strip > 16) j.strip = j.strip / 16 * 16;
	j.strips = (s + j.strip - 1) / j.strip;
	j.each = (rows * j.strips + items - 1) / items;
	j.sums = (double *)(((uintptr_t)scratch + 7) & ~(uintptr_t)7);
	static const ens_item fns[] = {pointnorm_item, pointnorm_grad_item, pointnorm_sums_item};
	ens_parallel(rows * c * s < 4096 ? 0 : p, fns[what], &j, items);
	if (what == 2)
		for (long k = 0; k < 2 * c; k++) {
			double t = 0;
			for (long i = 0; i < items; i++) t += j.sums[i * 2 * c + k];
			y[k] = t;
		}
}
