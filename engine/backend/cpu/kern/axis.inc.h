// Attention along an axis. Lines side by side are the lanes of vectors, so what meets in a score lies in one lane. Queries,
// keys and values of a window are gathered once into panels [element][channel][lane]; all that follows are sums of products of such
// vectors, in tiles of registers. The scores of some queries, for all keys of their window, are held at a time: no matrix of scores
// is in memory. Source: Dao et al. 2022, arXiv:2205.14135, with whole rows of scores, as windows are short.

enum {
	AXIS_ROWS = VL == 16 ? 4 : 2, // of a register tile
	AXIS_COLS = 4,
	AXIS_HELD = 16, // queries whose scores are held, at most
};

typedef struct {
	float *y;
	const float *x, *offsets, *dy;
	long blocks, per_row, row_step, point_step, width, beside, along_rows, along_points, length; // op.LineStrides
	long channels, plane, heads, per, reach, windows;
	const long *window; // first index and length of each
	long parts;           // items of a head of a block
	long strips, ownlen;  // strips of lanes of a block; scratch of a thread
	float *own;
	double *sums; // of items: gradients by weights of offsets
} axis_job;

// axis_lines are lines side by side: head h of a window of a block.
typedef struct axis_lines {
	const axis_job *j;
	long row, point, lanes, first, lo, n, channel;
	const struct axis_lines *next; // those that come after them, or null
} axis_lines;

// axis_of is unit u of a head of a block. What is near in memory comes one after the other: strips of a window where lines
// lie side by side, windows of a strip where points of a line do.
static axis_lines axis_of(const axis_job *j, long block, long h, long u) {
	long w = j->beside == 1 ? u / j->strips : u % j->windows, strip = j->beside == 1 ? u % j->strips : u / j->windows;
	axis_lines a = {j, block / j->per_row * j->row_step, block % j->per_row * j->point_step, 0, strip * VL,
		j->window[2 * w], j->window[2 * w + 1], h * j->per, 0};
	a.lanes = MIN(VL, j->width - a.first);
	return a;
}

// axis_at is the index of element i in a field of the given number of channels per row; those of the head begin at c.
static inline long axis_at(const axis_lines *a, long i, long channels, long c) {
	const axis_job *j = a->j;
	long k = a->lo + i;
	if (k >= j->length) k -= j->length;
	return ((a->row + k * j->along_rows) * channels + c) * j->plane + a->point + k * j->along_points + a->first * j->beside;
}

// --- panels ------------------------------------------------------------------------

// quads turns VL/4 × 4 vectors of four around: of q[k] are the fours of lines k, k + 4, …
INLINE void quads(vec *q) {
	TURN_PAIR(q[0], q[1], UNPACK);
	TURN_PAIR(q[2], q[3], UNPACK);
	TURN_PAIR(q[0], q[2], PAIR);
	TURN_PAIR(q[1], q[3], PAIR);
	vec t = q[1];
	q[1] = q[2];
	q[2] = t;
}

#if defined(__AVX512F__)
INLINE vec fours(const float *p, long step) {
	__m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p));
	v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 4 * step), 1);
	v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 8 * step), 2);
	return (vec)_mm512_insertf32x4(v, _mm_loadu_ps(p + 12 * step), 3);
}
INLINE void put_fours(float *p, long step, vec v) {
	_mm_storeu_ps(p, _mm512_castps512_ps128((__m512)v));
	_mm_storeu_ps(p + 4 * step, _mm512_extractf32x4_ps((__m512)v, 1));
	_mm_storeu_ps(p + 8 * step, _mm512_extractf32x4_ps((__m512)v, 2));
	_mm_storeu_ps(p + 12 * step, _mm512_extractf32x4_ps((__m512)v, 3));
}
#elif defined(__AVX2__)
INLINE vec fours(const float *p, long step) {
	return (vec)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * step), 1);
}
INLINE void put_fours(float *p, long step, vec v) {
	_mm_storeu_ps(p, _mm256_castps256_ps128((__m256)v));
	_mm_storeu_ps(p + 4 * step, _mm256_extractf128_ps((__m256)v, 1));
}
#else
INLINE vec fours(const float *p, long step) { return load(p); }
INLINE void put_fours(float *p, long step, vec v) { store(p, v); }
#endif

// axis_run is the number of elements from i on, below end, that are consecutive in memory.
static inline long axis_run(const axis_lines *a, long i, long end) {
	long k = a->lo + i;
	return k < a->j->length ? MIN(end - i, a->j->length - k) : end - i;
}

// axis_load gathers the channels of the head of elements lo to hi, times f: lanes that are no lines become zero.
static void axis_load(const axis_lines *a, float *to, const float *from, long channels, long c, long lo, long hi, float f) {
	const long plane = a->j->plane, beside = a->j->beside, per = a->j->per, cell = per * VL;
	if (beside == 1) {
		for (long i = lo; i < hi; i++) {
			const float *p = from + axis_at(a, i, channels, c);
			long ahead = axis_at(a->next, MIN(i, a->next->n - 1), channels, c) - axis_at(a, i, channels, c);
			for (long k = 0; k < per; k++, to += VL, p += plane) {
				__builtin_prefetch(p + ahead, 0, 2);
				store(to, load_first(p, a->lanes) * f);
			}
		}
		return;
	}
	for (long i = lo; i < hi;) {
		long run = a->j->along_points == 1 ? axis_run(a, i, hi) : 1;
		const float *p = from + axis_at(a, i, channels, c);
		for (long k = 0; k < per; k++, p += plane) {
			float *panel = to + (i - lo) * cell + k * VL;
			long m = 0;
			if (a->lanes == VL && run >= 4)
				while (m < run) { // the last four may meet the ones before
					vec q[4];
					m = MIN(m, run - 4);
					UNROLL for (int l = 0; l < 4; l++) q[l] = fours(p + l * beside + m, beside);
					quads(q);
					UNROLL for (int e = 0; e < 4; e++) store(panel + (m + e) * cell, q[e] * f);
					m += 4;
				}
			for (; m < run; m++) {
				vec v = {};
				for (long l = 0; l < a->lanes; l++) v[l] = p[l * beside + m];
				store(panel + m * cell, v * f);
			}
		}
		i += run;
	}
}

// axis_store writes, times f, the channels of the head of elements lo to hi.
static void axis_store(const axis_lines *a, const float *from, long channels, long c, long lo, long hi, float f) {
	const long plane = a->j->plane, beside = a->j->beside, per = a->j->per, cell = per * VL;
	if (beside == 1) {
		for (long i = lo; i < hi; i++) {
			float *p = a->j->y + axis_at(a, i, channels, c);
			long ahead = axis_at(a->next, MIN(i, a->next->n - 1), channels, c) - axis_at(a, i, channels, c);
			for (long k = 0; k < per; k++, from += VL, p += plane) {
				__builtin_prefetch(p + ahead, 1, 2);
				store_first(p, load(from) * f, a->lanes);
			}
		}
		return;
	}
	for (long i = lo; i < hi;) {
		long run = a->j->along_points == 1 ? axis_run(a, i, hi) : 1;
		float *p = a->j->y + axis_at(a, i, channels, c);
		for (long k = 0; k < per; k++, p += plane) {
			const float *panel = from + (i - lo) * cell + k * VL;
			long m = 0;
			if (a->lanes == VL && run >= 4)
				while (m < run) {
					vec q[4];
					m = MIN(m, run - 4);
					UNROLL for (int e = 0; e < 4; e++) q[e] = load(panel + (m + e) * cell) * f;
					quads(q);
					UNROLL for (int l = 0; l < 4; l++) put_fours(p + l * beside + m, beside, q[l]);
					m += 4;
				}
			for (; m < run; m++) {
				vec v = load(panel + m * cell) * f;
				for (long l = 0; l < a->lanes; l++) p[l * beside + m] = v[l];
			}
		}
		i += run;
	}
}

// --- products ------------------------------------------------------------------------

// C[r][t] = Σ_k A[r][k]·B[k][t], each of them a vector of lanes, at these distances; plus what is in C, with add; plus weights of offsets
// at bias[t − r].
typedef struct {
	const float *a, *b, *bias;
	float *c;
	long ar, ak, bk, bt, cr, ct, depth;
	int add;
} lane_products;

INLINE void lane_tile(const int rows, const int cols, const lane_products *p, long r0, long t0) {
	const float *a = p->a + r0 * p->ar, *b = p->b + t0 * p->bt;
	const long ar = p->ar, ak = p->ak, bk = p->bk, bt = p->bt, cr = p->cr, ct = p->ct;
	float *c = p->c + r0 * cr + t0 * ct;
	vec s[AXIS_ROWS][AXIS_COLS];
	UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < cols; t++) {
		s[r][t] = (vec){};
		if (p->bias) s[r][t] += p->bias[t0 - r0 + t - r];
		if (p->add) s[r][t] = load(c + r * cr + t * ct);
	}
	for (long k = 0; k < p->depth; k++, a += ak, b += bk) {
		vec v[AXIS_COLS];
		UNROLL for (int t = 0; t < cols; t++) v[t] = load(b + t * bt);
		UNROLL for (int r = 0; r < rows; r++) {
			vec u = load(a + r * ar);
			UNROLL for (int t = 0; t < cols; t++) s[r][t] += u * v[t];
		}
	}
	UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < cols; t++) store(c + r * cr + t * ct, s[r][t]);
}

#define LANE_TILE(m, n) static __attribute__((noinline)) void lane_tile_##m##_##n(const lane_products *p, long r0, long t0) { lane_tile(m, n, p, r0, t0); }
#define LANE_ROW(X, m) X(m, 1) X(m, 2) X(m, 3) X(m, 4)
#if VL == 16
#define LANE_ROWS(X) LANE_ROW(X, 1) LANE_ROW(X, 2) LANE_ROW(X, 3) LANE_ROW(X, 4)
#else
#define LANE_ROWS(X) LANE_ROW(X, 1) LANE_ROW(X, 2)
#endif
LANE_ROWS(LANE_TILE)
#define LANE_ENTRY(m, n) [(m) - 1][(n) - 1] = lane_tile_##m##_##n,
static void (*const lane_tiles[AXIS_ROWS][AXIS_COLS])(const lane_products *, long, long) = {LANE_ROWS(LANE_ENTRY)};

// lane_multiply walks over tiles of nearly equal sizes.
static void lane_multiply(lane_products p, long rows, long cols) {
	long down = (rows + AXIS_ROWS - 1) / AXIS_ROWS, along = (cols + AXIS_COLS - 1) / AXIS_COLS;
	for (long i = 0, r = 0; i < down; i++) {
		long m = (rows - r + down - i - 1) / (down - i);
		for (long k = 0, t = 0; k < along; k++) {
			long n = (cols - t + along - k - 1) / (along - k);
			lane_tiles[m - 1][n - 1](&p, r, t);
			t += n;
		}
		r += m;
	}
}

// --- softmax -------------------------------------------------------------------------

// larger is a > b ? a : b, in each lane.
INLINE vec larger(vec a, vec b) {
#if defined(__AVX512F__)
	return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
	return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
	ivec m = a > b;
	return (vec)(((ivec)a & m) | ((ivec)b & ~m));
#endif
}

// exp2_v is 2^x for −126 ≤ x ≤ 0, and 2^-126 for smaller x: 2^k times 2^r, |r| ≤ 1/2, by the polynomial of least largest relative
// error, 2e-9, that is 1 at 0.
INLINE vec exp2_v(vec x) {
	const vec magic = (vec){} + 0x1.8p23f; // adding it rounds to an integer, low bits hold it
	x = larger((vec){} - 126, x); // NaN stays
	vec t = x + magic, r = x - (t - magic);
	vec e = r * 0.00015353362f + 0.0013398874f;
	e = e * r + 0.009618437f;
	e = e * r + 0.055503324f;
	e = e * r + 0.24022648f;
	e = e * r + 0.6931472f;
	e = e * r + 1;
	return e * (vec)(((ivec)t + 127) << 23);
}

static const float log2e = 1.44269504f, ln2 = 0.69314718f;

// axis_work is a thread's scratch for a window of n: panels of keys, values and their gradients; of the queries that are held, panels
// of them, of dy and of results, their scores, or weights, and derivatives by them; sums by offset.
typedef struct {
	float *k, *v, *dk, *dv, *q, *dy, *o, *s, *d, *sums, *bias;
	long rows; // queries that are held
} axis_work;

static inline long axis_rows(long n) { return MIN(n, MAX(AXIS_ROWS, AXIS_HELD * AXIS_HELD / n)); }

static axis_work axis_scratch(const axis_job *j, long n) {
	float *at = (float *)(((uintptr_t)(j->own + ens_thread() * j->ownlen) + 63) & ~(uintptr_t)63);
	long panel = n * j->per * VL, rows = axis_rows(n), held = rows * j->per * VL;
	axis_work w = {.k = at, .v = at + panel, .dk = at + 2 * panel, .dv = at + 3 * panel, .rows = rows};
	w.q = at + 4 * panel;
	w.dy = w.q + held;
	w.o = w.dy + held;
	w.s = w.o + held;
	w.d = w.s + rows * n * VL;
	w.sums = w.d + rows * n * VL;
	w.bias = w.sums + 2 * n * VL;
	return w;
}

// axis_begin gathers keys and values of a window, and spreads the weights of offsets, in powers of two, around w->bias[n - 1].
static void axis_begin(const axis_lines *a, axis_work *w) {
	const axis_job *j = a->j;
	const float *of = j->offsets + a->channel / j->per * (2 * j->reach + 1) + j->reach;
	for (long d = 1 - a->n; d < a->n; d++) w->bias[d + a->n - 1] = log2e * of[d < -j->reach ? -j->reach : d > j->reach ? j->reach : d];
	axis_load(a, w->k, j->x, 3 * j->channels, j->channels + a->channel, 0, a->n, 1);
	axis_load(a, w->v, j->x, 3 * j->channels, 2 * j->channels + a->channel, 0, a->n, 1);
}

// axis_scores makes those of queries i to i + m, as powers of two.
static void axis_scores(const axis_lines *a, const axis_work *w, long i, long m) {
	const axis_job *j = a->j;
	const long cell = j->per * VL;
	axis_load(a, w->q, j->x, 3 * j->channels, a->channel, i, i + m, log2e / sqrtf(j->per));
	lane_multiply((lane_products){.a = w->q, .b = w->k, .bias = w->bias + a->n - 1 - i, .c = w->s, .ar = cell, .ak = VL, .bk = VL, .bt = cell,
		.cr = a->n * VL, .ct = VL, .depth = j->per}, m, a->n);
}

// axis_weights makes of a row of n scores weights but for the factor, which it gives.
INLINE vec axis_weights(float *s, long n) {
	vec top = load(s), sum = {};
	for (long t = 1; t < n; t++) top = larger(load(s + t * VL), top);
	for (long t = 0; t < n; t++) {
		vec e = exp2_v(load(s + t * VL) - top);
		sum += e;
		store(s + t * VL, e);
	}
	return 1 / sum;
}

static void axis_unit(const axis_lines *a) {
	const axis_job *j = a->j;
	const long cell = j->per * VL, row = a->n * VL;
	axis_work w = axis_scratch(j, a->n);
	axis_begin(a, &w);
	for (long i = 0; i < a->n; i += w.rows) {
		long m = MIN(w.rows, a->n - i);
		axis_scores(a, &w, i, m);
		vec part[AXIS_HELD];
		for (long r = 0; r < m; r++) part[r] = axis_weights(w.s + r * row, a->n);
		lane_multiply((lane_products){.a = w.s, .b = w.v, .c = w.o, .ar = row, .ak = VL, .bk = cell, .bt = VL, .cr = cell, .ct = VL, .depth = a->n}, m, j->per);
		for (long r = 0; r < m; r++)
			for (long c = 0; c < cell; c += VL) store(w.o + r * cell + c, load(w.o + r * cell + c) * part[r]);
		axis_store(a, w.o, j->channels, a->channel, i, i + m, 1);
	}
}

// axis_slopes makes weights, and derivatives of the loss by scores, of queries i to i + m.
static void axis_slopes(const axis_lines *a, const axis_work *w, long i, long m) {
	const axis_job *j = a->j;
	const long cell = j->per * VL, row = a->n * VL;
	axis_scores(a, w, i, m);
	axis_load(a, w->dy, j->dy, j->channels, a->channel, i, i + m, 1);
	lane_multiply((lane_products){.a = w->dy, .b = w->v, .c = w->d, .ar = cell, .ak = VL, .bk = VL, .bt = cell, .cr = row, .ct = VL, .depth = j->per}, m, a->n);
	for (long r = 0; r < m; r++) {
		float *s = w->s + r * row, *d = w->d + r * row;
		vec part = axis_weights(s, a->n), mean = {};
		for (long t = 0; t < row; t += VL) {
			vec p = load(s + t) * part;
			store(s + t, p);
			mean += p * load(d + t);
		}
		for (long t = 0; t < row; t += VL) store(d + t, load(s + t) * (load(d + t) - mean));
	}
}

static void axis_grad_unit(const axis_lines *a) {
	const axis_job *j = a->j;
	const long cell = j->per * VL, row = a->n * VL, wide = 3 * j->channels;
	axis_work w = axis_scratch(j, a->n);
	axis_begin(a, &w);
	for (long i = 0; i < a->n; i += w.rows) {
		long m = MIN(w.rows, a->n - i);
		axis_slopes(a, &w, i, m);
		lane_multiply((lane_products){.a = w.d, .b = w.k, .c = w.o, .ar = row, .ak = VL, .bk = cell, .bt = VL, .cr = cell, .ct = VL, .depth = a->n}, m, j->per);
		axis_store(a, w.o, wide, a->channel, i, i + m, 1 / sqrtf(j->per));
		lane_products p = {.a = w.d, .b = w.q, .c = w.dk, .ar = VL, .ak = row, .bk = cell, .bt = VL, .cr = cell, .ct = VL, .depth = m, .add = i > 0};
		lane_multiply(p, a->n, j->per);
		p.a = w.s, p.b = w.dy, p.c = w.dv;
		lane_multiply(p, a->n, j->per);
	}
	axis_store(a, w.dk, wide, j->channels + a->channel, 0, a->n, ln2); // of queries times log2 e
	axis_store(a, w.dv, wide, 2 * j->channels + a->channel, 0, a->n, 1);
}

// axis_offsets_unit adds to total, around total[reach].
static void axis_offsets_unit(const axis_lines *a, double *total) {
	const axis_job *j = a->j;
	const long row = a->n * VL;
	axis_work w = axis_scratch(j, a->n);
	axis_begin(a, &w);
	memset(w.sums, 0, 2 * a->n * VL * sizeof *w.sums);
	for (long i = 0; i < a->n; i += w.rows) {
		long m = MIN(w.rows, a->n - i);
		axis_slopes(a, &w, i, m);
		for (long r = 0; r < m; r++) {
			float *to = w.sums + (a->n - 1 - i - r) * VL, *from = w.d + r * row;
			for (long t = 0; t < row; t += VL) store(to + t, load(to + t) + load(from + t));
		}
	}
	for (long d = 1 - a->n; d < a->n; d++) {
		const float *from = w.sums + (d + a->n - 1) * VL;
		double s[VL];
		EACH(l, 0, VL) s[l] = from[l];
		for (long h = VL / 2; h > 0; h /= 2) EACH(l, 0, h) s[l] += s[l + h];
		total[d < -j->reach ? -j->reach : d > j->reach ? j->reach : d] += s[0];
	}
}

// An item is a part of the units of a head of a block.
INLINE void axis_each(const axis_job *j, long item, const int what) {
	long of = item / j->parts, part = item % j->parts, units = j->strips * j->windows, sums = 2 * j->reach + 1;
	double *total = j->sums + item * sums;
	if (what == 2) memset(total, 0, sums * sizeof *total);
	for (long u = units * part / j->parts; u < units * (part + 1) / j->parts; u++) {
		axis_lines a = axis_of(j, of / j->heads, of % j->heads, u), next = axis_of(j, of / j->heads, of % j->heads, MIN(u + 1, units - 1));
		a.next = &next;
		if (what == 0) axis_unit(&a);
		if (what == 1) axis_grad_unit(&a);
		if (what == 2) axis_offsets_unit(&a, total + j->reach);
	}
}

static void axis_item(void *v, long item) { axis_each(v, item, 0); }
static void axis_grad_item(void *v, long item) { axis_each(v, item, 1); }
static void axis_offsets_item(void *v, long item) { axis_each(v, item, 2); }

// what is 0 for y of x [rows 3·channels plane] and offsets, 1 and 2 for the gradients by x and by offsets. For 2, sums come first in scratch.
static void k_axis(ens_pool *p, int what, float *y, const float *x, const float *offsets, const float *dy, float *scratch, const long *g, const long *window) {
	axis_job j = {y, x, offsets, dy, g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11], g[9] / g[11], g[12], g[13], window,
		.parts = g[14], .ownlen = g[15]};
	long heads = j.blocks * j.heads, sums = 2 * j.reach + 1;
	j.strips = (j.width + VL - 1) / VL;
	j.sums = (double *)(((uintptr_t)scratch + 7) & ~(uintptr_t)7);
	j.own = what == 2 ? (float *)(j.sums + heads * j.parts * sums) : scratch;
	static const ens_item items[] = {axis_item, axis_grad_item, axis_offsets_item};
	ens_parallel(j.blocks * j.width * j.length * j.channels < 4096 ? 0 : p, items[what], &j, heads * j.parts);
	if (what == 2)
		for (long h = 0; h < j.heads; h++)
			for (long o = 0; o < sums; o++) {
				double s = 0;
				for (long i = 0; i < heads * j.parts; i++)
					if (i / j.parts % j.heads == h) s += j.sums[i * sums + o];
				y[h * sums + o] = s;
			}
}
