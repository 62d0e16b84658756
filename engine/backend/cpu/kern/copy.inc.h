// Copies: rows with strides (concatenation, slices), padding with zeros or
// round the globe and its adjoint, and the folding of depth into channels.

typedef struct {
	float *y;
	const float *x;
	long ys, xs, rows, len, per;
	int add;
} rows_job;

static void rows_item(void *v, long item) {
	const rows_job *j = v;
	long lo = item * j->per, hi = MIN(lo + j->per, j->rows), n = j->len;
	for (long r = lo; r < hi; r++) {
		float *y = j->y + r * j->ys;
		const float *x = j->x + r * j->xs;
		if (j->add) EACH(i, 0, n) y[i] += x[i];
		else memmove(y, x, n * sizeof *y);
	}
}

// y[r*ystride + i] = (or +=) x[r*xstride + i]
static void k_strided_copy(ens_pool *p, float *y, long ystride, const float *x, long xstride, long rows, long len, int add) {
	rows_job j = {y, x, ystride, xstride, rows, len, MAX(1, CHUNK / MAX(1, len)), add};
	if (rows == 1 && len > CHUNK) { // one long row: cut it
		j = (rows_job){y, x, CHUNK, CHUNK, len / CHUNK, CHUNK, 1, add};
		ens_parallel(p, rows_item, &j, j.rows);
		j = (rows_job){y + j.rows * CHUNK, x + j.rows * CHUNK, 0, 0, 1, len % CHUNK, 1, add};
	}
	ens_parallel(p, rows_item, &j, (j.rows + j.per - 1) / j.per);
}

typedef struct {
	float *y;
	const float *x;
	const long *in, *lo, *hi;
	const int *mode; // per axis: 0 zeros, 1 periodic
} pad_job;

// source is the cell of the input under cell q of the padded axis, -1 for zero.
static inline long source(long q, long n, long lo, int mode) {
	q -= lo;
	if (q >= 0 && q < n) return q;
	return mode ? ((q % n) + n) % n : -1;
}

static void pad_item(void *v, long plane) {
	const pad_job *j = v;
	const long *in = j->in, *lo = j->lo, *hi = j->hi;
	long e[3];
	for (int a = 0; a < 3; a++) e[a] = in[a] + lo[a] + hi[a];
	const float *x = j->x + plane * in[0] * in[1] * in[2];
	float *y = j->y + plane * e[0] * e[1] * e[2];
	for (long d = 0; d < e[0]; d++)
		for (long h = 0; h < e[1]; h++, y += e[2]) {
			long sd = source(d, in[0], lo[0], j->mode[0]), sh = source(h, in[1], lo[1], j->mode[1]);
			if (sd < 0 || sh < 0) {
				memset(y, 0, e[2] * sizeof *y);
				continue;
			}
			const float *r = x + (sd * in[1] + sh) * in[2];
			memcpy(y + lo[2], r, in[2] * sizeof *y);
			for (long w = 0; w < lo[2]; w++) {
				long s = source(w, in[2], lo[2], j->mode[2]);
				y[w] = s < 0 ? 0 : r[s];
			}
			for (long w = lo[2] + in[2]; w < e[2]; w++) {
				long s = source(w, in[2], lo[2], j->mode[2]);
				y[w] = s < 0 ? 0 : r[s];
			}
		}
}

// y[plane][D+lo+hi][H+lo+hi][W+lo+hi] from x[plane][D][H][W]
static void k_pad(ens_pool *p, float *y, const float *x, long planes, const long *in, const long *lo, const long *hi, const int *mode) {
	pad_job j = {y, x, in, lo, hi, mode};
	ens_parallel(planes * in[0] * in[1] * in[2] < 8192 ? 0 : p, pad_item, &j, planes);
}

static void pad_grad_item(void *v, long plane) {
	const pad_job *j = v;
	const long *in = j->in, *lo = j->lo, *hi = j->hi;
	long e[3];
	for (int a = 0; a < 3; a++) e[a] = in[a] + lo[a] + hi[a];
	float *x = j->y + plane * in[0] * in[1] * in[2];
	const float *y = j->x + plane * e[0] * e[1] * e[2];
	memset(x, 0, in[0] * in[1] * in[2] * sizeof *x);
	for (long d = 0; d < e[0]; d++)
		for (long h = 0; h < e[1]; h++, y += e[2]) {
			long sd = source(d, in[0], lo[0], j->mode[0]), sh = source(h, in[1], lo[1], j->mode[1]);
			if (sd < 0 || sh < 0) continue;
			float *r = x + (sd * in[1] + sh) * in[2];
			EACH(w, 0, in[2]) r[w] += y[lo[2] + w];
			if (!j->mode[2]) continue;
			for (long w = 0; w < lo[2]; w++) r[source(w, in[2], lo[2], 1)] += y[w];
			for (long w = lo[2] + in[2]; w < e[2]; w++) r[source(w, in[2], lo[2], 1)] += y[w];
		}
}

// The adjoint: every padded cell adds to the cell it was copied from.
static void k_pad_grad(ens_pool *p, float *dx, const float *dy, long planes, const long *in, const long *lo, const long *hi, const int *mode) {
	pad_job j = {dx, dy, in, lo, hi, mode};
	ens_parallel(planes * in[0] * in[1] * in[2] < 8192 ? 0 : p, pad_grad_item, &j, planes);
}

typedef struct {
	float *w2, *w;
	long cin, kd, khw, din, dout, stride, dilation, pad;
	int grad;
} fold_job;

static void fold_item(void *v, long co) {
	const fold_job *j = v;
	long row = j->cin * j->din * j->khw;
	float *w = j->w + co * j->cin * j->kd * j->khw, *w2 = j->w2 + co * j->dout * row;
	memset(j->grad ? w : w2, 0, (j->grad ? j->cin * j->kd * j->khw : j->dout * row) * sizeof *w);
	for (long o = 0; o < j->dout; o++)
		for (long c = 0; c < j->cin; c++)
			for (long k = 0; k < j->kd; k++) {
				long i = o * j->stride - j->pad + k * j->dilation;
				if (i < 0 || i >= j->din) continue;
				float *flat = w2 + o * row + (c * j->din + i) * j->khw, *deep = w + (c * j->kd + k) * j->khw;
				if (j->grad)
					EACH(q, 0, j->khw) deep[q] += flat[q];
				else
					memcpy(flat, deep, j->khw * sizeof *w);
			}
}

// The 3-D filter w[cout][cin][kd][khw] over depth din as a 2-D filter
// w2[cout*dout][cin*din][khw], zero where a depth tap falls on padding; or,
// with grad, w as the sum of what w2 repeats.
static void k_fold_filter(ens_pool *p, float *w2, float *w, long cout, long cin, long kd, long khw, long din,
		long dout, long stride, long dilation, long pad, int grad) {
	fold_job j = {w2, w, cin, kd, khw, din, dout, stride, dilation, pad, grad};
	ens_parallel(cout * cin * khw * din * dout < 8192 ? 0 : p, fold_item, &j, cout);
}
