// Linear interpolation between cell centres by whole factors on a blocked
// tensor, as upsample.inc.h, and its adjoint. A row is first combined from the
// rows above, below, before and behind, then along longitude; both while its
// cells pass through registers.

typedef struct {
	void *y;
	const void *x, *gate;
	const long *in, *f;
	long rows, per; // rows of the result, all in all and in an item
	int wrap, mode;
} blocked_up_job;

// Phase q of f lies at s = (q+1/2)/f - 1/2 of its coarse cell: 1-|s| of it and
// |s| of the neighbour on that side.
INLINE float up_phase(long q, long f) { return (q + 0.5) / f - 0.5; }

// combine is the sum of w[r] times cell i of row r.
INLINE cell combine(const void *const *rows, const float *w, long n, long i, const int b16) {
	cell t = cell_scale(w[0], get_cell(rows[0], i * CELL, b16));
	for (long r = 1; r < n; r++) t = cell_add(t, w[r], get_cell(rows[r], i * CELL, b16));
	return t;
}

// blocked_up_row writes the f n cells of a fine row. rows and f are constant
// after inlining where that pays.
INLINE void blocked_up_row(void *y, const void *const *row, const float *w, long rows, long n, long f, int wrap, const int b16) {
	cell here = combine(row, w, rows, 0, b16), first = here;
	cell left = wrap ? combine(row, w, rows, n - 1, b16) : here;
	for (long i = 0; i < n; i++) {
		cell right = i + 1 < n ? combine(row, w, rows, i + 1, b16) : wrap ? first : here;
		for (long q = 0; q < f; q++) {
			float s = up_phase(q, f);
			put_cell(y, (i * f + q) * CELL, cell_add(cell_scale(1 - fabsf(s), here), fabsf(s), s < 0 ? left : right), b16);
		}
		left = here;
		here = right;
	}
}

INLINE void blocked_up_item(const blocked_up_job *j, long item, const int b16) {
	const long *in = j->in, *f = j->f;
	long od = in[0] * f[0], oh = in[1] * f[1], W = in[2];
	for (long i = item * j->per; i < MIN(j->rows, (item + 1) * j->per); i++) {
		long h = i % oh, d = i / oh % od, plane = i / oh / od, a[2], b[2], rows = 0;
		float wd, wh, w[4];
		const void *row[4];
		up_pair(d, in[0], f[0], 0, &a[0], &a[1], &wd);
		up_pair(h, in[1], f[1], 0, &b[0], &b[1], &wh);
		for (int s = 0; s < 2; s++)
			for (int t = 0; t < 2; t++) {
				float v = (s ? wd : 1 - wd) * (t ? wh : 1 - wh);
				if (v == 0) continue;
				w[rows] = v;
				row[rows++] = at(j->x, ((plane * in[0] + a[s]) * in[1] + b[t]) * W * CELL, b16);
			}
		void *y = at(j->y, i * W * f[2] * CELL, b16);
		if (rows == 2 && f[2] == 2)
			blocked_up_row(y, row, w, 2, W, 2, j->wrap, b16);
		else
			blocked_up_row(y, row, w, rows, W, f[2], j->wrap, b16);
	}
}
STORED(blocked_up_item)

static long up_plan(blocked_up_job *j, long rows, long cells) {
	j->rows = rows;
	j->per = MAX(1, SPREAD / MAX(1, cells));
	return (rows + j->per - 1) / j->per;
}

// y[planes][D fD][H fH][W fW] from x[planes][D][H][W] of cells; wrap closes the last axis.
static void k_blocked_upsample(ens_pool *p, int b16, void *y, const void *x, long planes, const long *in, const long *f, int wrap) {
	blocked_up_job j = {y, x, 0, in, f, 0, 0, wrap, 0};
	long n = up_plan(&j, planes * in[0] * f[0] * in[1] * f[1], in[2] * f[2]);
	ens_parallel(p, PICK(blocked_up_item, b16), &j, n);
}

// up_readers lists the fine cells of an axis that read coarse cell o, with
// their weights: at most 2 f. Beyond an end the end itself is read.
static long up_readers(long o, long n, long f, long *fine, float *w) {
	long k = 0;
	for (long c = MAX(0, o - 1); c < MIN(n, o + 2); c++)
		for (long q = 0; q < f; q++) {
			float s = up_phase(q, f);
			long other = MIN(MAX(c + (s < 0 ? -1 : 1), 0), n - 1);
			float v = (c == o ? 1 - fabsf(s) : 0) + (other == o ? fabsf(s) : 0);
			if (v == 0) continue;
			fine[k] = c * f + q;
			w[k++] = v;
		}
	return k;
}

// What the f fine cells of one coarse cell give to it and to its neighbours.
typedef struct { cell left, here, right; } up_shares;

INLINE up_shares up_split(const void *const *row, const float *w, long rows, long i, long f, const int b16) {
	up_shares u = {0};
	for (long q = 0; q < f; q++) {
		float s = up_phase(q, f);
		cell g = combine(row, w, rows, i * f + q, b16);
		u.here = cell_add(u.here, 1 - fabsf(s), g);
		if (s < 0) u.left = cell_add(u.left, -s, g);
		if (s > 0) u.right = cell_add(u.right, s, g);
	}
	return u;
}

// blocked_up_grad_row gathers a coarse row of n cells from the fine rows that read it.
INLINE void blocked_up_grad_row(void *dx, const void *x, const void *const *row, const float *w, long rows, long n, long f,
		int wrap, int mode, const int b16) {
	up_shares here = up_split(row, w, rows, 0, f, b16);
	cell first = here.left, left = wrap ? up_split(row, w, rows, n - 1, f, b16).right : here.left;
	for (long i = 0; i < n; i++) {
		up_shares next = here;
		cell right;
		if (i + 1 < n) {
			next = up_split(row, w, rows, i + 1, f, b16);
			right = next.left;
		} else
			right = wrap ? first : here.right;
		put_grad(dx, x, i * CELL, cell_add(cell_add(here.here, 1, left), 1, right), mode, 0, b16);
		left = here.right;
		here = next;
	}
}

INLINE void blocked_up_grad_item(const blocked_up_job *j, long item, const int b16) {
	const long *in = j->in, *f = j->f;
	long od = in[0] * f[0], oh = in[1] * f[1], W = in[2], ow = W * f[2];
	long fd[2 * f[0]], fh[2 * f[1]];
	float wd[2 * f[0]], wh[2 * f[1]], w[4 * f[0] * f[1]];
	const void *row[4 * f[0] * f[1]];
	for (long i = item * j->per; i < MIN(j->rows, (item + 1) * j->per); i++) {
		long h = i % in[1], d = i / in[1] % in[0], plane = i / in[1] / in[0], rows = 0;
		long nd = up_readers(d, in[0], f[0], fd, wd), nh = up_readers(h, in[1], f[1], fh, wh);
		for (long a = 0; a < nd; a++)
			for (long b = 0; b < nh; b++) {
				w[rows] = wd[a] * wh[b];
				row[rows++] = at(j->x, ((plane * od + fd[a]) * oh + fh[b]) * ow * CELL, b16);
			}
		void *dx = at(j->y, i * W * CELL, b16);
		const void *x = at(j->gate, i * W * CELL, b16);
		if (rows == 4 && f[2] == 2)
			blocked_up_grad_row(dx, x, row, w, 4, W, 2, j->wrap, j->mode, b16);
		else
			blocked_up_grad_row(dx, x, row, w, rows, W, f[2], j->wrap, j->mode, b16);
	}
}
STORED(blocked_up_grad_item)

// The adjoint. x, the coarse tensor, is read for the gate alone.
static void k_blocked_upsample_grad(ens_pool *p, int b16, void *dx, const void *dy, const void *x, long planes, const long *in,
		const long *f, int wrap, int mode) {
	blocked_up_job j = {dx, dy, x, in, f, 0, 0, wrap, mode};
	long n = up_plan(&j, planes * in[0] * in[1], in[2] * f[2]);
	ens_parallel(p, PICK(blocked_up_grad_item, b16), &j, n);
}
