// Convolutions with filters of one cell on the blocked layout: one matrix product
// of the cells and the channels, with bias, a value to add, ReLU and a gate on
// the way out.

enum {
	POINT_CELLS = 8 * MR, // of an item
	POINT_PIECE = 256,    // cells that the filter's gradient adds in float32
	POINT_PAIR = CV == 1 ? 2 : 1, // blocks of the result in a register tile
};

typedef struct {
	void *y;
	const void *x[2], *gate, *plus;
	const float *w, *bias;
	float *packed; // filter as [block of the result][channel of the source][16], then the bias
	long n, s, k, c[2], wk, wc; // wk, wc: distance of the filter's values for the next channel of result and source
	int relu;
} point_job;

INLINE long point_blocks(long c) { return (c + CELL - 1) / CELL; }
INLINE long point_source(const point_job *j) { return j->c[0] + j->c[1]; }

// point_pack packs one block of the filter and its bias.
static void point_pack(void *v, long b) {
	const point_job *j = v;
	long cin = point_source(j), lanes = MIN(CELL, j->k - b * CELL);
	float *to = j->packed + b * cin * CELL, *bias = j->packed + (point_blocks(j->k) * cin + b) * CELL;
	for (long c = 0; c < cin; c++)
		for (long l = 0; l < CELL; l++) to[c * CELL + l] = l < lanes ? j->w[(b * CELL + l) * j->wk + c * j->wc] : 0;
	for (long l = 0; l < CELL; l++) bias[l] = l < lanes && j->bias ? j->bias[b * CELL + l] : 0;
}

#define POINT_ARGS const point_job *j, long n, long at_cell, long kb

// point_cell computes VL channels of one cell from channel k on as sums in double, which do not overflow on their way.
static __attribute__((noinline, cold)) vec point_cell(const point_job *j, long n, long cell, long k, int b16) {
	double sum[VL];
	float r[VL] = {0};
	for (long l = 0; l < MIN(VL, j->k - k); l++) {
		sum[l] = j->bias ? j->bias[k + l] : 0;
		for (int p = 0; p < 2; p++)
			for (long c = 0; c < j->c[p]; c++)
				sum[l] += (double)get(j->x[p], ((n * point_blocks(j->c[p]) + c / CELL) * j->s + cell) * CELL + c % CELL, b16) * j->w[(k + l) * j->wk + (c + (p ? j->c[0] : 0)) * j->wc];
		r[l] = sum[l];
	}
	return load(r);
}

// mr cells by nk blocks of the result. Of bfloat16 the cells of a block are widened
// first, since each of their values goes through the products as a scalar.
INLINE void point_of(const int mr, const int nk, const int b16, POINT_ARGS) {
	vec acc[MR][POINT_PAIR * CV];
	long cin = point_source(j), kblocks = point_blocks(j->k);
	const float *w = j->packed + kb * cin * CELL, *bias = j->packed + (kblocks * cin + kb) * CELL;
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int q = 0; q < nk * CV; q++) acc[r][q] = load(bias + q * VL);
	for (int p = 0; p < 2; p++)
		for (long b = 0; b < point_blocks(j->c[p]); b++) {
			long first = ((n * point_blocks(j->c[p]) + b) * j->s + at_cell) * CELL;
			float wide[MR * CELL];
			if (b16) UNROLL for (int r = 0; r < mr * CV; r++) store(wide + r * VL, get_vec(j->x[p], first + r * VL, 1));
			const float *a = b16 ? wide : (const float *)j->x[p] + first;
			long lanes = MIN(CELL, j->c[p] - b * CELL);
			for (long k = 0; k < lanes; k++, w += CELL) {
				vec bv[POINT_PAIR * CV];
				UNROLL for (int q = 0; q < nk * CV; q++) bv[q] = load(w + q / CV * cin * CELL + q % CV * VL);
				UNROLL for (int r = 0; r < mr; r++) {
					float t = a[r * CELL + k];
					UNROLL for (int q = 0; q < nk * CV; q++) acc[r][q] += t * bv[q];
				}
			}
		}
	vec all = {};
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int q = 0; q < nk * CV; q++) all += acc[r][q] - acc[r][q];
	if (__builtin_expect(any_nan(all), 0))
		for (int r = 0; r < mr; r++)
			for (int q = 0; q < nk * CV; q++) acc[r][q] = point_cell(j, n, at_cell + r, (kb + q / CV) * CELL + q % CV * VL, b16);
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int q = 0; q < nk * CV; q++) {
			long i = ((n * kblocks + kb + q / CV) * j->s + at_cell + r) * CELL + q % CV * VL;
			vec t = first_lanes(acc[r][q], j->k - (kb + q / CV) * CELL - q % CV * VL); // the padding stays zero beside NaN
			if (j->plus) t += get_vec(j->plus, i, b16);
			if (j->relu) t = pick(above((vec){0}, t), (vec){0}, t); // keeps NaN
			if (j->gate) t = pick(above(get_vec(j->gate, i, b16), (vec){0}), t, (vec){0});
			put_vec(j->y, i, t, b16);
		}
}

#define POINT_OF(name, m, nk, b16) \
	static __attribute__((noinline)) void name(POINT_ARGS) { point_of(m, nk, b16, j, n, at_cell, kb); }
#define POINT_DEFINE(way, m)              \
	POINT_OF(way##_##m##_1, m, 1, 0)          \
	POINT_OF(way##_##m##_2, m, POINT_PAIR, 0) \
	POINT_OF(way##16_##m##_1, m, 1, 1)        \
	POINT_OF(way##16_##m##_2, m, POINT_PAIR, 1)
MM_EACH(POINT_DEFINE, point)
typedef void (*point_fn)(POINT_ARGS);
static const point_fn point_fns[2][MR][2] = {{MM_EACH(MM_ENTRY, point)}, {MM_EACH(MM_ENTRY, point16)}}; // by storage

INLINE void point_item(const point_job *j, long item, const int b16) {
	long per = (j->s + POINT_CELLS - 1) / POINT_CELLS, n = item / per, lo = item % per * POINT_CELLS;
	long hi = MIN(lo + POINT_CELLS, j->s), tiles = (hi - lo + MR - 1) / MR, blocks = point_blocks(j->k);
	for (long kb = 0; kb < blocks;) {
		int pair = POINT_PAIR == 2 && kb + 1 < blocks;
		for (long i = 0, r = lo; i < tiles; i++) {
			long m = (hi - r + tiles - i - 1) / (tiles - i);
			point_fns[b16][m - 1][pair](j, n, r, kb);
			r += m;
		}
		kb += pair ? 2 : 1;
	}
}
STORED(point_item)

// y[k] = sum over the channels c of x0 and x1 of w[k wk + c wc] x[c], plus
// bias[k] and plus, as ReLU or where gate > 0; bias, plus and gate may be null.
// packed has room for (c0 + c1 + 1) values for each channel of whole blocks of y.
static void k_point(ens_pool *p, int b16, void *y, const void *x0, const void *x1, const float *w, long wk, long wc,
		const float *bias, const void *gate, const void *plus, int relu, float *packed, long n, long c0, long c1, long k, long s) {
	point_job j = {y, {x0, x1}, gate, plus, w, bias, packed, n, s, k, {c0, c1}, wk, wc, relu};
	ens_parallel(p, point_pack, &j, point_blocks(k));
	ens_parallel(p, PICK(point_item, b16), &j, n * ((s + POINT_CELLS - 1) / POINT_CELLS));
}

typedef struct {
	float *dw;
	const void *x[2], *dy;
	long n, s, k, c[2];
} point_filter_job;

// point_wide are the cells from first on as float32: themselves, or in room.
INLINE const float *point_wide(const void *x, long first, long cells, float *room, const int b16) {
	if (!b16) return (const float *)x + first;
	for (long i = 0; i < cells * CELL; i += VL) store(room + i, get_vec(x, first + i, 1));
	return room;
}

// An item is one block of the source by one of the result.
INLINE void point_filter_item(const point_filter_job *j, long item, const int b16) {
	long kblocks = point_blocks(j->k), kb = item % kblocks, b = item / kblocks, first = point_blocks(j->c[0]);
	int p = b >= first;
	if (p) b -= first;
	float part[CELL * CELL], wide[2][POINT_PIECE * CELL];
	double sum[CELL * CELL] = {0};
	for (long n = 0; n < j->n; n++)
		for (long lo = 0; lo < j->s; lo += POINT_PIECE) {
			long cells = MIN(POINT_PIECE, j->s - lo);
			const float *x = point_wide(j->x[p], ((n * point_blocks(j->c[p]) + b) * j->s + lo) * CELL, cells, wide[0], b16);
			const float *dy = point_wide(j->dy, ((n * kblocks + kb) * j->s + lo) * CELL, cells, wide[1], b16);
			mm_cols(CELL, CELL, cells, x, CELL, dy, CELL, part, CELL, 0);
			for (long i = 0; i < CELL * CELL; i++) sum[i] += part[i];
		}
	long cin = j->c[0] + j->c[1], c = b * CELL + (p ? j->c[0] : 0);
	for (long r = 0; r < MIN(CELL, j->c[p] - b * CELL); r++)
		for (long l = 0; l < MIN(CELL, j->k - kb * CELL); l++) j->dw[(kb * CELL + l) * cin + c + r] = sum[r * CELL + l];
}
STORED(point_filter_item)

// dw[k][c] = sum over all cells of x[c] dy[k], the channels of x0 and then x1.
static void k_point_filter(ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *dy, long n, long c0,
		long c1, long k, long s) {
	point_filter_job j = {dw, {x0, x1}, dy, n, s, k, {c0, c1}};
	ens_parallel(p, PICK(point_filter_item, b16), &j, (point_blocks(c0) + point_blocks(c1)) * point_blocks(k));
}
