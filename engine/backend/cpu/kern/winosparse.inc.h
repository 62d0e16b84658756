// Winograd's convolutions with filters of which whole blocks are zero: 16 result
// × 16 source channels, all taps. What a block that is not kept would add is zero at
// every point of the transformed domain, so its products are left out, and with them the
// transforms of source blocks that no kept block reads. What is computed is computed in
// the order of wino.inc.h: the bits are the same.
//
// Transformed tiles lie as [point][block of the source that is read][tile][16]: the
// values of a block at one point are contiguous, and rows a constant 16 apart.

// The blocks, as Go fills them (winosparse.go): numbers of blocks of result channels, of
// source blocks that are read and of kept blocks; then the source blocks that are read,
// ascending; for every result block where its kept blocks begin, and behind the last the
// end; for every kept block which of the source blocks that are read is its; and the
// result blocks that have any, of which there are used.
typedef struct {
	long columns, read, kept, used;
	const long *sources, *first, *of, *columns_used;
} kept_blocks;

static kept_blocks kept_of(const long *b) {
	kept_blocks k = {.columns = b[0], .read = b[1], .kept = b[2], .used = b[3]};
	k.sources = b + 4;
	k.first = k.sources + k.read;
	k.of = k.first + k.columns + 1;
	k.columns_used = k.of + k.kept;
	return k;
}

typedef struct {
	wino w; // first: items of dense kernels could take it
	kept_blocks k;
	long vs, ms, ds; // distances of points: of transformed tiles, of products, of transformed gradients
	long tiles;      // of a block as they lie
} sparse;

// sparse_chunk is block b of the source as a chunk of its own.
INLINE chunk sparse_chunk(const wino *j, long b) {
	long blocks = (j->g[W_C0] + 15) / 16;
	chunk k = {b >= blocks};
	k.lo = (k.part ? b - blocks : b) * 16;
	k.n = MIN(16, j->g[k.part ? W_C1 : W_C0] - k.lo);
	k.start = k.lo + (k.part ? j->g[W_C0] : 0);
	k.row = k.start;
	k.rows = 16;
	return k;
}

// --- products ------------------------------------------------------------------

// C[r][16] = sum over kept blocks i and their 16 channels of A[i][r][c]·B[i][c][16]: A of
// block i lies at a + of[i]·ts, its rows 16 apart; B one block behind the other.
INLINE void kept_rows_of(const int mr, const int nv, long n, const long *of, const float *a, long ts, const float *b, float *c) {
	vec acc[MR][NV];
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) acc[r][j] = (vec){};
	for (long i = 0; i < n; i++) {
		const float *p = a + of[i] * ts;
		for (int k = 0; k < 16; k++, p++, b += 16) {
			vec bv[NV];
			UNROLL for (int j = 0; j < nv; j++) bv[j] = load(b + j * VL);
			UNROLL for (int r = 0; r < mr; r++) {
				float s = p[r * 16];
				UNROLL for (int j = 0; j < nv; j++) acc[r][j] += s * bv[j];
			}
		}
	}
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) store(c + r * 16 + j * VL, acc[r][j]);
}

enum { KEPT_NV = VL == 16 ? 1 : NV }; // vectors of a register tile
#define KEPT_ARGS long n, const long *of, const float *a, long ts, const float *b, float *c
#define KEPT_DEFINE(way, m) \
	static __attribute__((noinline)) void way##_##m(KEPT_ARGS) { way##_of(m, KEPT_NV, n, of, a, ts, b, c); }
#define KEPT_ENTRY(way, m) way##_##m,
MM_EACH(KEPT_DEFINE, kept_rows)
typedef void (*kept_fn)(KEPT_ARGS);
static const kept_fn kept_rows_fns[MR] = {MM_EACH(KEPT_ENTRY, kept_rows)};

static void kept_rows(long rows, KEPT_ARGS) {
	long tiles = (rows + MR - 1) / MR;
	for (long j = 0; j < 16; j += KEPT_NV * VL)
		for (long i = 0, r = 0; i < tiles; i++) {
			long m = (rows - r + tiles - i - 1) / (tiles - i);
			kept_rows_fns[m - 1](n, of, a + r * 16, ts, b + j, c + r * 16 + j);
			r += m;
		}
}

// --- forward, and the gradient of the data ----------------------------------------

// sparse_filter_block transforms the kept filters of result block b to
// u[point][kept][16][16].
static void sparse_filter_block(const sparse *s, long b, float *u) {
	const long first = s->k.first[b], n = s->k.first[b + 1] - first;
	for (long i = 0; i < n; i++) {
		chunk c = sparse_chunk(&s->w, s->k.sources[s->k.of[first + i]]);
		filter_block(&s->w, c, b * 16, 16, u + i * 256, n * 256);
		if (c.n < 16)
			for (long p = 0; p < s->w.points; p++) memset(u + (p * n + i) * 256 + c.n * 16, 0, (16 - c.n) * 16 * sizeof *u);
	}
}

static void sparse_filter_item(void *v, long b) {
	const sparse *s = v;
	sparse_filter_block(s, b, s->w.shared + s->k.first[b] * s->w.points * 256);
}

// sparse_source transforms a tile of the blocks that are read to v + block·16·tiles.
static void sparse_source(const sparse *s, long t, float *v, long tiles, long ps) {
	const wino *j = &s->w;
	tile_at a = tile_of(j, t);
	long cell[36];
	int all = tile_cells(j, a, 0, cell);
	for (long i = 0; i < s->k.read; i++) {
		ahead(j, a, cell, sparse_chunk(j, s->k.sources[i]));
		SIX_BY_STORAGE(source_part, j->g[W_SCHEME], j->x16, AS_WORDS, ALL_POINTS, j, a, cell, all, sparse_chunk(j, s->k.sources[i]), v + i * tiles * 16, ps, 0)
	}
}

// Cells of a result that no kept block reaches: sums of zero.
INLINE void zero_points(const int b16, const wino *j, tile_at a, long k, vec bias) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16;
	vec r0 = (vec){} + bias;
	if (g[W_RELU]) r0 = relu_of(r0);
	for (long z = 0; z < depth_out[g[W_SCHEME]] && a.z + z < g[W_D]; z++) {
		long at = ((a.n * ((g[W_K] + 15) / 16) + k / 16) * g[W_D] + a.z + z) * plane + k % 16;
		for (int i = 0; i < 4 && a.y + i < g[W_H]; i++) {
			long row = at + ((a.y + i) * g[W_W] + a.x) * 16;
			for (int c = 0; c < 4 && a.x + c < g[W_W]; c++) {
				vec r = r0;
				if (j->plus) r += get_vec(j->plus, row + c * 16, b16);
				if (j->gate) r = keep(r, get_vec(j->gate, row + c * 16, b16) > 0);
				put_vec(j->y, row + c * 16, r, b16);
			}
		}
	}
}

static void zero_tile(const wino *j, long t, long b) {
	tile_at a = tile_of(j, t);
	float bias[16] = {0};
	if (j->bias) memcpy(bias, j->bias + b * 16, MIN(16, j->g[W_K] - b * 16) * sizeof *bias);
	for (long l = 0; l < 16; l += VL) {
		if (j->y16) zero_points(1, j, a, b * 16 + l, load(bias + l));
		else zero_points(0, j, a, b * 16 + l, load(bias + l));
	}
}

// sparse_columns takes n transformed tiles through the kept filters u of result block b.
static void sparse_columns(const sparse *s, long b, const float *u, long first, long n, const float *v, long ts, long vs, float *m) {
	const wino *j = &s->w;
	const long at = s->k.first[b], kept = s->k.first[b + 1] - at;
	if (kept == 0) {
		for (long t = 0; t < n; t++) zero_tile(j, first + t, b);
		return;
	}
	for (long p = 0; p < j->points; p++) kept_rows(n, kept, s->k.of + at, v + p * vs, ts, u + p * kept * 256, m + p * s->ms);
	near(j, j->y, j->y16, tile_of(j, first), b, 1);
	for (long t = 0; t < n; t++) {
		if (t + 1 < n) near(j, j->y, j->y16, tile_of(j, first + t + 1), b, 1);
		result_tile(j, first + t, m + t * 16, s->ms, b * 16, 16);
	}
}

static void sparse_tiles_item(void *arg, long i) {
	const sparse *s = arg;
	const wino *j = &s->w;
	const long first = (j->items ? j->items[i] : i) * s->tiles, n = MIN(s->tiles, j->tiles - first);
	float *v = j->own + ens_thread() * j->ownlen, *m = v + j->points * s->vs;
	for (long t = 0; t < n; t++) sparse_source(s, first + t, v + t * 16, s->tiles, s->vs);
	for (long b = 0; b < s->k.columns; b++)
		sparse_columns(s, b, j->shared + s->k.first[b] * j->points * 256, first, n, v, s->tiles * 16, s->vs, m);
}

static void k_wino_sparse(ens_pool *p, int x16, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g, const long *blocks, const long *items, long count, int again) {
	sparse s = {.w = wino_job(g, 0), .k = kept_of(blocks)};
	wino *j = &s.w;
	j->items = items;
	j->x16 = x16, j->y16 = y16, j->x0 = x0, j->x1 = x1, j->f0 = f0, j->f1 = f1, j->w = w, j->bias = bias, j->gate = gate, j->plus = plus, j->y = y, j->shared = scratch;
	s.tiles = g[W_TILES];
	s.vs = point_stride(s.tiles, s.k.read * 16), s.ms = point_stride(s.tiles, 16);
	j->own = scratch + s.k.kept * j->points * 256;
	j->ownlen = j->points * (s.vs + s.ms);
	if (!again) ens_parallel(p, sparse_filter_item, &s, s.k.columns);
	ens_parallel(p, sparse_tiles_item, &s, items ? count : (j->tiles + s.tiles - 1) / s.tiles);
}

// --- the filter's gradient ---------------------------------------------------

// C[16][16] += sum over tiles of A[t][r]·B[t][c], rows r0… of A.
INLINE void kept_cols_of(const int mr, const int nv, long n, const float *a, const float *b, float *c) {
	vec acc[16][NV];
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) acc[r][j] = load(c + r * 16 + j * VL);
	for (long t = 0; t < n; t++, a += 16, b += 16) {
		vec bv[NV];
		UNROLL for (int j = 0; j < nv; j++) bv[j] = load(b + j * VL);
		UNROLL for (int r = 0; r < mr; r++)
			UNROLL for (int j = 0; j < nv; j++) acc[r][j] += a[r] * bv[j];
	}
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) store(c + r * 16 + j * VL, acc[r][j]);
}

static __attribute__((noinline)) void kept_cols(long n, const float *a, const float *b, float *c) {
#if VL == 16
	kept_cols_of(16, 1, n, a, b, c);
#else
	for (long j = 0; j < 16; j += KEPT_NV * VL) {
		kept_cols_of(6, KEPT_NV, n, a, b + j, c + j);
		kept_cols_of(5, KEPT_NV, n, a + 6, b + j, c + 6 * 16 + j);
		kept_cols_of(5, KEPT_NV, n, a + 11, b + j, c + 11 * 16 + j);
	}
#endif
}

// The present block of tiles: sources and behind them gradients as [point][block][tile][16]
// in shared scratch, sums as [kept][point][16][16] behind them.
// Tiles of an item, which follow each other, so that one can ask for what the next reads.
enum { NEIGHBOURS = 4 };

static void sparse_both_item(void *arg, long item) {
	const sparse *s = arg;
	const wino *j = &s->w;
	for (long i = item * NEIGHBOURS; i < MIN(j->count, (item + 1) * NEIGHBOURS); i++) {
		sparse_source(s, j->first + i, j->shared + i * 16, s->tiles, s->vs);
		tile_at a = tile_of(j, j->first + i), next = {a.n, a.z, a.y, a.x + 4};
		float *d = j->shared + j->points * s->vs + i * 16;
		for (long k = 0; k < s->k.used; k++) {
			near(j, j->dy, j->x16, next, s->k.columns_used[k], 0);
			SIX_BY_STORAGE(gradient_part, j->g[W_SCHEME], j->x16, AS_WORDS, ALL_POINTS, j, a, s->k.columns_used[k], d + k * s->tiles * 16, s->ds, 0)
		}
	}
}

static void sparse_point_item(void *arg, long p) {
	const sparse *s = arg;
	const wino *j = &s->w;
	const float *v = j->shared + p * s->vs, *d = j->shared + j->points * s->vs + p * s->ds;
	for (long k = 0; k < s->k.used; k++) {
		const long b = s->k.columns_used[k];
		for (long i = s->k.first[b]; i < s->k.first[b + 1]; i++) {
			float *c = j->own + (i * j->points + p) * 256;
			if (j->first == 0) memset(c, 0, 256 * sizeof *c);
			kept_cols(j->count, v + s->k.of[i] * s->tiles * 16, d + k * s->tiles * 16, c);
		}
	}
}

// Each item writes the gradient of the filters of one result block: zero where a block
// is not kept.
static void sparse_taps_item(void *arg, long b) {
	const sparse *s = arg;
	const wino *j = &s->w;
	const long *g = j->g, rows = MIN(16, g[W_K] - b * 16);
	long i = s->k.first[b];
	for (long c = 0; c < (g[W_C0] + 15) / 16 + (g[W_C1] + 15) / 16; c++) {
		chunk k = sparse_chunk(j, c);
		if (i < s->k.first[b + 1] && s->k.sources[s->k.of[i]] == c) {
			scatter_taps(j, k, b * 16, 16, j->own + i * j->points * 256, 16, 256);
			i++;
			continue;
		}
		for (long r = 0; r < rows; r++) memset((float *)j->y + ((b * 16 + r) * g[W_WI] + g[W_WLO] + k.start) * j->taps, 0, k.n * j->taps * sizeof(float));
	}
}

static void k_wino_sparse_filter(ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g, const long *blocks) {
	sparse s = {.w = wino_job(g, 0), .k = kept_of(blocks)};
	wino *j = &s.w;
	j->x16 = b16, j->x0 = x0, j->x1 = x1, j->f0 = f0, j->f1 = f1, j->dy = dy, j->y = dw, j->shared = scratch;
	s.tiles = MIN(g[W_TILES], j->tiles);
	s.vs = point_stride(s.tiles, s.k.read * 16), s.ds = point_stride(s.tiles, s.k.used * 16);
	j->own = scratch + j->points * (s.vs + s.ds);
	for (j->first = 0; s.k.kept > 0 && j->first < j->tiles; j->first += s.tiles) {
		j->count = MIN(s.tiles, j->tiles - j->first);
		ens_parallel(p, sparse_both_item, &s, (j->count + NEIGHBOURS - 1) / NEIGHBOURS);
		ens_parallel(p, sparse_point_item, &s, j->points);
	}
	ens_parallel(p, sparse_taps_item, &s, s.k.columns);
}
