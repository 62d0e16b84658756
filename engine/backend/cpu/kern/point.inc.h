// Convolutions with filters of one cell on the blocked layout: one matrix product
// of the cells and the channels, with bias, a value to add, ReLU and a gate on
// the way out.

enum {
	POINT_CELLS = 8 * MR, // of an item
	POINT_PIECE = 256,    // cells that the filter's gradient adds in float32
	POINT_PAIR = CV == 1 ? 2 : 1, // blocks of the result in a register tile
};

typedef struct {
	float *y;
	const float *x[2], *w, *bias, *gate, *plus;
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

// mr cells by nk blocks of the result.
INLINE void point_of(const int mr, const int nk, POINT_ARGS) {
	vec acc[MR][POINT_PAIR * CV];
	long cin = point_source(j), kblocks = point_blocks(j->k);
	const float *w = j->packed + kb * cin * CELL, *bias = j->packed + (kblocks * cin + kb) * CELL;
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int q = 0; q < nk * CV; q++) acc[r][q] = load(bias + q * VL);
	for (int p = 0; p < 2; p++)
		for (long b = 0; b < point_blocks(j->c[p]); b++) {
			const float *a = j->x[p] + ((n * point_blocks(j->c[p]) + b) * j->s + at_cell) * CELL;
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
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int q = 0; q < nk * CV; q++) {
			long i = ((n * kblocks + kb + q / CV) * j->s + at_cell + r) * CELL + q % CV * VL;
			vec t = acc[r][q];
			if (j->plus) t += load(j->plus + i);
			if (j->relu) t = pick(above((vec){0}, t), (vec){0}, t); // keeps NaN
			if (j->gate) t = pick(above(load(j->gate + i), (vec){0}), t, (vec){0});
			store(j->y + i, t);
		}
}

#define POINT_DEFINE(way, m)                                                                       \
	static __attribute__((noinline)) void way##_##m##_1(POINT_ARGS) { point_of(m, 1, j, n, at_cell, kb); } \
	static __attribute__((noinline)) void way##_##m##_2(POINT_ARGS) { point_of(m, POINT_PAIR, j, n, at_cell, kb); }
MM_EACH(POINT_DEFINE, point)
typedef void (*point_fn)(POINT_ARGS);
static const point_fn point_fns[MR][2] = {MM_EACH(MM_ENTRY, point)};

static void point_item(void *v, long item) {
	const point_job *j = v;
	long per = (j->s + POINT_CELLS - 1) / POINT_CELLS, n = item / per, lo = item % per * POINT_CELLS;
	long hi = MIN(lo + POINT_CELLS, j->s), tiles = (hi - lo + MR - 1) / MR, blocks = point_blocks(j->k);
	for (long kb = 0; kb < blocks;) {
		int pair = POINT_PAIR == 2 && kb + 1 < blocks;
		for (long i = 0, r = lo; i < tiles; i++) {
			long m = (hi - r + tiles - i - 1) / (tiles - i);
			point_fns[m - 1][pair](j, n, r, kb);
			r += m;
		}
		kb += pair ? 2 : 1;
	}
}

// y[k] = sum over the channels c of x0 and x1 of w[k wk + c wc] x[c], plus
// bias[k] and plus, as ReLU or where gate > 0; bias, plus and gate may be null.
// packed has room for (c0 + c1 + 1) values for each channel of whole blocks of y.
static void k_point(ens_pool *p, float *y, const float *x0, const float *x1, const float *w, long wk, long wc, const float *bias,
		const float *gate, const float *plus, int relu, float *packed, long n, long c0, long c1, long k, long s) {
	point_job j = {y, {x0, x1}, w, bias, gate, plus, packed, n, s, k, {c0, c1}, wk, wc, relu};
	ens_parallel(p, point_pack, &j, point_blocks(k));
	ens_parallel(p, point_item, &j, n * ((s + POINT_CELLS - 1) / POINT_CELLS));
}

typedef struct {
	float *dw;
	const float *x[2], *dy;
	long n, s, k, c[2];
} point_filter_job;

// An item is one block of the source by one of the result.
static void point_filter_item(void *v, long item) {
	const point_filter_job *j = v;
	long kblocks = point_blocks(j->k), kb = item % kblocks, b = item / kblocks, first = point_blocks(j->c[0]);
	int p = b >= first;
	if (p) b -= first;
	float part[CELL * CELL];
	double sum[CELL * CELL] = {0};
	for (long n = 0; n < j->n; n++)
		for (long lo = 0; lo < j->s; lo += POINT_PIECE) {
			mm_cols(CELL, CELL, MIN(POINT_PIECE, j->s - lo), j->x[p] + ((n * point_blocks(j->c[p]) + b) * j->s + lo) * CELL, CELL,
				j->dy + ((n * kblocks + kb) * j->s + lo) * CELL, CELL, part, CELL, 0);
			for (long i = 0; i < CELL * CELL; i++) sum[i] += part[i];
		}
	long cin = j->c[0] + j->c[1], c = b * CELL + (p ? j->c[0] : 0);
	for (long r = 0; r < MIN(CELL, j->c[p] - b * CELL); r++)
		for (long l = 0; l < MIN(CELL, j->k - kb * CELL); l++) j->dw[(kb * CELL + l) * cin + c + r] = sum[r * CELL + l];
}

// dw[k][c] = sum over all cells of x[c] dy[k], the channels of x0 and then x1.
static void k_point_filter(ens_pool *p, float *dw, const float *x0, const float *x1, const float *dy, long n, long c0, long c1,
		long k, long s) {
	point_filter_job j = {dw, {x0, x1}, dy, n, s, k, {c0, c1}};
	ens_parallel(p, point_filter_item, &j, (point_blocks(c0) + point_blocks(c1)) * point_blocks(k));
}
