// Maximum and mean over disjoint windows of a blocked tensor; cells left over
// at the far end take no part.

typedef struct {
	void *y;             // result; dx backward
	const void *x, *g;   // g: dy backward
	const long *in, *k;
	long planes, bands, per; // bands of k[0] x k[1] rows, all in all and in an item
	int mean, mode;
} window_job;

// window_plan counts the bands, those that a window does not fill included, and cuts them into items.
static long window_plan(window_job *j) {
	const long *in = j->in, *k = j->k;
	j->bands = j->planes * ((in[0] + k[0] - 1) / k[0]) * ((in[1] + k[1] - 1) / k[1]);
	j->per = MAX(1, SPREAD / (k[0] * k[1] * in[2]));
	return (j->bands + j->per - 1) / j->per;
}

// later lets a value later in the window (row major) win over the maximum m if
// it is greater, or not a number, and notes its place.
INLINE void later(cell t, cell *m, int place, cell *best) {
	EACH_VEC(q) {
		vmask win = above(t.v[q], m->v[q]) | not_number(t.v[q]);
		m->v[q] = pick(win, t.v[q], m->v[q]);
		if (best) best->v[q] = pick(win, (float)place - (vec){0}, best->v[q]);
	}
}

#define EACH_PLACE(i, b, c) \
	for (long i = 0; i < k0; i++) for (long b = 0; b < k1; b++) for (long c = 0; c < k2; c++)

// window_row writes n results from windows that begin at x; the window is
// constant after inlining where that pays.
INLINE void window_row(void *y, const void *x, long n, const long *in, long k0, long k1, long k2, int mean, const int b16) {
	float share = 1.0f / (k0 * k1 * k2);
	for (long w = 0; w < n; w++) {
		const void *from = at(x, w * k2 * CELL, b16);
		cell m = mean ? cell_zero() : get_cell(from, 0, b16);
		EACH_PLACE(i, b, c) {
			cell t = get_cell(from, ((i * in[1] + b) * in[2] + c) * CELL, b16);
			if (mean)
				m = cell_add(m, 1, t);
			else if (i + b + c)
				later(t, &m, 0, 0);
		}
		if (mean)
			put_cell(y, w * CELL, cell_scale(share, m), b16);
		else
			put_same(y, w * CELL, m, b16);
	}
}

// grad_row spreads n values of g over the windows of x.
INLINE void grad_row(void *dx, const void *x, const void *g, long n, const long *in, long k0, long k1, long k2, int mean,
		int mode, const int b16) {
	float share = 1.0f / (k0 * k1 * k2);
	for (long w = 0; w < n; w++) {
		long o = w * k2 * CELL;
		cell dy = get_cell(g, w * CELL, b16);
		if (mean) {
			dy = cell_scale(share, dy);
			EACH_PLACE(i, b, c) put_grad(dx, x, o + ((i * in[1] + b) * in[2] + c) * CELL, dy, mode, 0, b16);
			continue;
		}
		cell m = get_cell(x, o, b16);
		cell best = cell_zero(); // place in the window of the maximum
		int place = 0;
		EACH_PLACE(i, b, c) {
			if (place) later(get_cell(x, o + ((i * in[1] + b) * in[2] + c) * CELL, b16), &m, place, &best);
			place++;
		}
		place = 0;
		EACH_PLACE(i, b, c) {
			cell mine;
			EACH_VEC(q) mine.v[q] = pick(equal(best.v[q], (float)place - (vec){0}), dy.v[q], (vec){0});
			put_grad(dx, x, o + ((i * in[1] + b) * in[2] + c) * CELL, mine, mode, 1, b16);
			place++;
		}
	}
}

#define SMALL_WINDOW(k) ((k)[0] == 1 && (k)[1] == 2 && (k)[2] == 2)

// band_at finds band i: its plane and where it begins; 1 if windows fill it.
static int band_at(const window_job *j, long i, long *plane, long *d, long *h) {
	const long *in = j->in, *k = j->k;
	long rows = (in[1] + k[1] - 1) / k[1], deep = (in[0] + k[0] - 1) / k[0];
	*h = i % rows * k[1];
	*d = i / rows % deep * k[0];
	*plane = i / rows / deep;
	return *h + k[1] <= in[1] && *d + k[0] <= in[0];
}

INLINE void window_item(const window_job *j, long item, const int b16) {
	const long *in = j->in, *k = j->k;
	long o[3] = {in[0] / k[0], in[1] / k[1], in[2] / k[2]}, plane, d, h;
	for (long i = item * j->per; i < MIN(j->bands, (item + 1) * j->per); i++) {
		if (!band_at(j, i, &plane, &d, &h)) continue;
		const void *x = at(j->x, ((plane * in[0] + d) * in[1] + h) * in[2] * CELL, b16);
		void *y = at(j->y, ((plane * o[0] + d / k[0]) * o[1] + h / k[1]) * o[2] * CELL, b16);
		if (!SMALL_WINDOW(k))
			window_row(y, x, o[2], in, k[0], k[1], k[2], j->mean, b16);
		else if (j->mean)
			window_row(y, x, o[2], in, 1, 2, 2, 1, b16);
		else
			window_row(y, x, o[2], in, 1, 2, 2, 0, b16);
	}
}
STORED(window_item)

INLINE void window_grad_item(const window_job *j, long item, const int b16) {
	const long *in = j->in, *k = j->k;
	long o[3] = {in[0] / k[0], in[1] / k[1], in[2] / k[2]}, plane, d, h;
	for (long i = item * j->per; i < MIN(j->bands, (item + 1) * j->per); i++) {
		int full = band_at(j, i, &plane, &d, &h);
		long at0 = ((plane * in[0] + d) * in[1] + h) * in[2] * CELL;
		void *dx = at(j->y, at0, b16);
		const void *x = at(j->x, at0, b16);
		if (full) {
			const void *g = at(j->g, ((plane * o[0] + d / k[0]) * o[1] + h / k[1]) * o[2] * CELL, b16);
			if (!SMALL_WINDOW(k) || j->mean)
				grad_row(dx, x, g, o[2], in, k[0], k[1], k[2], j->mean, j->mode, b16);
			else if (j->mode == 0)
				grad_row(dx, x, g, o[2], in, 1, 2, 2, 0, 0, b16);
			else
				grad_row(dx, x, g, o[2], in, 1, 2, 2, 0, j->mode, b16);
		}
		for (long a = 0; a < MIN(k[0], in[0] - d); a++) // what no window covers
			for (long b = 0; b < MIN(k[1], in[1] - h); b++)
				for (long w = full ? o[2] * k[2] : 0; w < in[2]; w++)
					put_grad(dx, x, ((a * in[1] + b) * in[2] + w) * CELL, cell_zero(), j->mode, 1, b16);
	}
}
STORED(window_grad_item)

// y[planes][D/k][H/k][W/k] from x[planes][D][H][W] of cells, the maximum or the mean.
static void k_blocked_window(ens_pool *p, int b16, int mean, void *y, const void *x, long planes, const long *in, const long *k) {
	window_job j = {y, x, 0, in, k, planes, 0, 0, mean, 0};
	long n = window_plan(&j);
	ens_parallel(p, PICK(window_item, b16), &j, n);
}

// dx from x and the gradient of y. The first maximum of a window gets all of it.
static void k_blocked_window_grad(ens_pool *p, int b16, int mean, void *dx, const void *dy, const void *x, long planes,
		const long *in, const long *k, int mode) {
	window_job j = {dx, x, dy, in, k, planes, 0, 0, mean, mode};
	long n = window_plan(&j);
	ens_parallel(p, PICK(window_grad_item, b16), &j, n);
}
