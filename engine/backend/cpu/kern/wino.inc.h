// Winograd's minimal convolutions on the blocked layout, for filters of kD×k×k,
// stride 1: F(4×4, 3×3) over the field, and over the levels one of the depth
// schemes below. All three passes are 36·P small matrix products between
// transformed tensors.
//
// Filters of k = 5, 7, … are cut into S×S filters of 3×3, S = ⌈k/3⌉, with zeros
// where 3·S exceeds k; filters of k = 1 are 3×3 with eight zeros. Each of the S²
// sees the source three cells further on, and all add up in the products, as
// S² times as many source channels would.
//
// The points are 0, ±5/8, ±3/2 and ∞. Their error is half of that with the
// customary 0, ±1, ±2, ∞ (twice that of the plain sum at 64 channels), and the
// squares that occur are exact in float32.
//
// Source: Lavin and Gray 2016, doi:10.1109/CVPR.2016.435; on the choice of
// points: Barabasz et al. 2020, doi:10.1145/3412380.

#define PA 0.625f // points ±a
#define PB 1.5f   // points ±b

// add_mul is c + a·v, sub_mul c − a·v, rounded once where the processor can. They are written out because compilers contract
// products and sums differently in each place that a transform is compiled, and all variants must give the same bits.
INLINE vec add_mul(vec c, const float a, vec v) {
#if defined(__AVX512F__)
	return (vec)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)v, (__m512)c);
#elif defined(__AVX2__)
	return (vec)_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)v, (__m256)c);
#else
	return c + a * v;
#endif
}
INLINE vec sub_mul(vec c, const float a, vec v) {
#if defined(__AVX512F__)
	return (vec)_mm512_fnmadd_ps(_mm512_set1_ps(a), (__m512)v, (__m512)c);
#elif defined(__AVX2__)
	return (vec)_mm256_fnmadd_ps(_mm256_set1_ps(a), (__m256)v, (__m256)c);
#else
	return c - a * v;
#endif
}

// Transforms of sources and gradients compute the points lo ≤ i < hi along an axis, and may compute others.
#define ALL_POINTS 0, 6

// Six values against six points: B' of the source. Twelve multiply-adds.
INLINE void to_points(const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	const float a = PA, b = PB, aa = a * a, bb = b * b;
	if (lo < 3) {
		vec even = sub_mul(i[4 * s], bb, i[2 * s]), odd = sub_mul(i[3 * s], bb, i[s]);
		o[0] = add_mul(sub_mul(i[4 * s], aa + bb, i[2 * s]), aa * bb, i[0]);
		o[q] = add_mul(even, a, odd);
		o[2 * q] = sub_mul(even, a, odd);
	}
	if (hi > 3) {
		vec even = sub_mul(i[4 * s], aa, i[2 * s]), odd = sub_mul(i[3 * s], aa, i[s]);
		o[3 * q] = add_mul(even, b, odd);
		o[4 * q] = sub_mul(even, b, odd);
		o[5 * q] = add_mul(sub_mul(i[5 * s], aa + bb, i[3 * s]), aa * bb, i[s]);
	}
}

// A' of the result: six products to four values.
INLINE void from_points(const vec *i, const int s, vec *o, const int q) {
	const float a = PA, b = PB;
	vec pa = i[s] + i[2 * s], ma = i[s] - i[2 * s], pb = i[3 * s] + i[4 * s], mb = i[3 * s] - i[4 * s];
	o[0] = i[0] + pa + pb;
	o[q] = add_mul(b * mb, a, ma);
	o[2 * q] = add_mul(b * b * pb, a * a, pa);
	o[3 * q] = add_mul(add_mul(i[5 * s], b * b * b, mb), a * a * a, ma);
}

// A of a result's gradient: four values to six points.
INLINE void grad_to_points(const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	const float a = PA, b = PB;
	if (lo < 3) {
		vec even = add_mul(i[0], a * a, i[2 * s]), odd = add_mul(i[s], a * a, i[3 * s]);
		o[0] = i[0];
		o[q] = add_mul(even, a, odd);
		o[2 * q] = sub_mul(even, a, odd);
	}
	if (hi > 3) {
		vec even = add_mul(i[0], b * b, i[2 * s]), odd = add_mul(i[s], b * b, i[3 * s]);
		o[3 * q] = add_mul(even, b, odd);
		o[4 * q] = sub_mul(even, b, odd);
		o[5 * q] = i[3 * s];
	}
}

// The Lagrange factors 1/N of the points: they go with the filter.
#define LAG0 ((float)(1.0 / (PA * PA * PB * PB)))
#define LAGA ((float)(1.0 / (2.0 * PA * PA * (PA * PA - PB * PB))))
#define LAGB ((float)(1.0 / (2.0 * PB * PB * (PB * PB - PA * PA))))

// G of the filter: three taps to six points.
INLINE void taps_to_points(const vec *i, const int s, vec *o, const int q) {
	vec a = add_mul(LAGA * i[0], LAGA * PA * PA, i[2 * s]), b = add_mul(LAGB * i[0], LAGB * PB * PB, i[2 * s]);
	o[0] = LAG0 * i[0];
	o[q] = add_mul(a, LAGA * PA, i[s]);
	o[2 * q] = sub_mul(a, LAGA * PA, i[s]);
	o[3 * q] = add_mul(b, LAGB * PB, i[s]);
	o[4 * q] = sub_mul(b, LAGB * PB, i[s]);
	o[5 * q] = i[2 * s];
}

// G' of the filter's gradient: six points to three taps.
INLINE void points_to_taps(const vec *i, const int s, vec *o, const int q) {
	vec pa = i[s] + i[2 * s], ma = i[s] - i[2 * s], pb = i[3 * s] + i[4 * s], mb = i[3 * s] - i[4 * s];
	o[0] = add_mul(add_mul(LAG0 * i[0], LAGA, pa), LAGB, pb);
	o[q] = add_mul(LAGB * PB * mb, LAGA * PA, ma);
	o[2 * q] = add_mul(add_mul(i[5 * s], LAGA * PA * PA, pa), LAGB * PB * PB, pb);
}

// The depth schemes.
enum {
	// Every level by itself: filters of one level, and of three over a single
	// level, of which only the middle one meets it.
	DEPTH_FLAT,
	// Two levels of source and result, filters of three, padding 1. y0 = w1 x0 + w2 x1 and y1 = w0 x0 + w1 x1
	// are three products: w1 (x0 + x1), (w2 − w1) x1, (w0 − w1) x0.
	DEPTH_PAIR,
	// F(2, 3) over any number of levels: four products for two
	// levels, at the points 0, ±1, ∞.
	DEPTH_DEEP,
	// F(4, 3), as over the field: six products for four levels.
	DEPTH_CUBE,
};
static const int depth_in[] = {1, 2, 4, 6}, depth_products[] = {1, 3, 4, 6}, depth_out[] = {1, 2, 2, 4};
enum { MOST_IN = 6, MOST_PRODUCTS = 6, MOST_OUT = 4 };

// Storage of transformed values: as float32; or, for products of bfloat16, in pairs,
// of which a product reads both at once: adjacent, or as the halves of a word that two
// transforms fill one after the other.
enum { AS_WORDS, AS_ROWS, AS_HALVES };

// BY_SCHEME calls f with the depth scheme as a constant; BY_STORAGE with that of
// the fields too, float32 or bfloat16, which only their loads and stores see; BY_FORM
// also with how the transformed values lie.
#define BY_SCHEME(f, scheme, ...)                       \
	switch (scheme) {                                   \
	case DEPTH_FLAT: f(DEPTH_FLAT, __VA_ARGS__); break; \
	case DEPTH_PAIR: f(DEPTH_PAIR, __VA_ARGS__); break; \
	case DEPTH_DEEP: f(DEPTH_DEEP, __VA_ARGS__); break; \
	case DEPTH_CUBE: f(DEPTH_CUBE, __VA_ARGS__); break; \
	}
#define BY_STORAGE(f, scheme, b16, ...)         \
	if (b16)                                    \
		BY_SCHEME(f, scheme, 1, __VA_ARGS__)    \
	else                                        \
		BY_SCHEME(f, scheme, 0, __VA_ARGS__)
#if HALVES
#define BY_FORM(f, scheme, b16, form, ...)           \
	if ((form) == AS_ROWS)                           \
		BY_SCHEME(f, scheme, 1, AS_ROWS, __VA_ARGS__)   \
	else if ((form) == AS_HALVES)                    \
		BY_SCHEME(f, scheme, 1, AS_HALVES, __VA_ARGS__) \
	else                                             \
		BY_STORAGE(f, scheme, b16, AS_WORDS, __VA_ARGS__)
#else
#define BY_FORM(f, scheme, b16, form, ...) BY_STORAGE(f, scheme, b16, AS_WORDS, __VA_ARGS__)
#endif

// put_point stores a transformed vector at value i of p. Of halves the even ones
// come first, and leave the odd ones zero.
INLINE void put_point(void *p, long i, vec x, const int form, int odd) {
#if HALVES
	if (form == AS_ROWS) {
		*(hvec *)((uint16_t *)p + i) = half(x);
		return;
	}
	if (form == AS_HALVES) {
		uvec *to = (uvec *)((float *)p + i), word = to_upper(half(x));
		*to = odd ? (uvec)(*to | word) : (uvec)(word >> 16);
		return;
	}
#endif
	store((float *)p + i, x);
}

// The geometry, as Go fills it (wino.go).
enum {
	W_N, W_C0, W_C1, W_K, // batch; channels of the two parts of the source; result channels
	W_D, W_H, W_W, W_KD, W_KS, // field of the result; levels and side of the filter
	W_SD, W_SH, W_SW,          // field of the source, its halo included
	W_FN, W_FS, W_FW, W_FE,    // rows and columns of the halo: north, south, west, east
	W_PADZ, W_PADY, W_PADX,    // what the first window reaches before the source
	W_SCHEME, W_WRAP,     // longitudes are periodic
	W_WI, W_WLO,          // input channels of the filter, the first of them that is meant
	W_FLIP,               // backward data: the filter is [source result taps], reversed
	W_TILES, W_WHOLE,     // tiles of a block; all tiles are transformed first, filters by column block
	W_RELU,
	W_HALF,               // products of bfloat16
	W_ROWS,               // filter gradient: rows of points that a thread takes through all tiles; 0: threads share all points
	W_BAND_H, W_BAND_W, W_SLICES, // of direct.inc.h: latitudes and longitudes of a band, slices of the result channels
	W_COUNT
};

typedef struct {
	const long *g;
	int x16, y16; // x0, x1 and dy are bfloat16; y, gate and plus are
	const void *x0, *x1, *gate, *plus, *dy;
	const void *f0, *f1; // halos of the source's parts
	const float *w, *bias;
	void *y;            // the result, or the filter's gradient
	float *shared, *own; // scratch of all, and of each thread
	long ownlen;
	long tiles, th, tw, td, points; // tiles in all, in height, width, depth; 36·products
	int half;                // products of bfloat16
	long c, cs;              // source channels, and padded ones of a transformed tile
	long c0;                 // of the first part, in a transformed tile: even for adjacent halves
	long s, ss, taps;        // S, S², taps of a filter
	long full;               // few tiles: column blocks that are not halved
	long chunks[2];          // of the two parts of the source
	long ks, block;          // filter gradient: columns as they lie, tiles of a block,
	long first, count;       // and the present block's,
	long chunk, step;        // the present chunk, and how many go together
	const long *items;       // blocks of tiles that are meant; NULL for all
	int far;                 // source and result are larger than a second cache: what comes next is asked for ahead
} wino;

enum {
	NB = 32,      // columns of the transformed filter that lie together
	CHUNK_C = 32, // source channels of a chunk
	WINO_NEAR = 1 << 19, // values of source and result that a second cache holds
};

static wino wino_job(const long *g, int even) {
	wino j = {.g = g, .half = g[W_HALF]};
	j.th = (g[W_H] + 3) / 4;
	j.tw = (g[W_W] + 3) / 4;
	int s = g[W_SCHEME];
	j.td = (g[W_D] + depth_out[s] - 1) / depth_out[s];
	j.tiles = g[W_N] * j.td * j.th * j.tw;
	j.points = 36 * depth_products[s];
	even &= j.half;
	j.c0 = g[W_C0] + (g[W_C0] & even);
	j.c = j.c0 + g[W_C1] + (g[W_C1] & even);
	j.cs = (j.c0 + (g[W_C1] + 15) / 16 * 16 + 15) / 16 * 16;
	j.s = (g[W_KS] + 2) / 3;
	j.ss = j.s * j.s;
	j.taps = g[W_KD] * g[W_KS] * g[W_KS];
	j.chunks[0] = (g[W_C0] + CHUNK_C - 1) / CHUNK_C;
	j.chunks[1] = (g[W_C1] + CHUNK_C - 1) / CHUNK_C;
	return j;
}

// tile_row is the length of a transformed tile of which S² parts of a chunk lie
// together, or with S = 1 all channels.
INLINE long tile_row(const wino *j) { return j->ss > 1 ? j->ss * CHUNK_C + 16 : j->cs; }

// Transformed tensors keep their points 16 values apart from a power of two,
// so that the 108 lines a tile writes do not fall into one set of the cache.
INLINE long point_stride(long rows, long cols) { return rows * cols + 16; }

// Source channels go through the products in chunks, none across the two parts
// of the source. In a transformed tile and in a transformed filter the rows of a
// chunk lie together: [chunk][S²][channels]. With S = 1 that is the order of the
// channels. A part of which the channels are odd may have a row of zeros behind it.
typedef struct { long part, lo, n, start, row, rows; } chunk; // channels lo… of a part, start… of the source, and its rows
static chunk chunk_at(const wino *j, long i) {
	chunk k = {i >= j->chunks[0]};
	k.lo = (k.part ? i - j->chunks[0] : i) * CHUNK_C;
	k.n = MIN(CHUNK_C, j->g[k.part ? W_C1 : W_C0] - k.lo);
	k.start = k.lo + (k.part ? j->g[W_C0] : 0);
	k.row = k.lo + (k.part ? j->c0 : 0);
	k.rows = MIN(CHUNK_C, (k.part ? j->c - j->c0 : j->c0) - k.lo);
	return k;
}

// The halo of a source is a tensor of its own: [N][blocks][levels][cells][16],
// with the cells in this order: rows in the north, rows in the south, each as long as
// the source with halo; then for each row between them the cells in the west and east.
INLINE long halo_cells(const long *g) {
	long middle = g[W_SH] - g[W_FN] - g[W_FS];
	return (g[W_FN] + g[W_FS]) * g[W_SW] + middle * (g[W_FW] + g[W_FE]);
}

// cell_at is the offset of a cell in a plane of blocks of the source; of a cell of the
// halo, −2 minus that in a plane of the halo.
INLINE long cell_at(const long *g, long y, long x) {
	const long rows = g[W_SH] - g[W_FN] - g[W_FS], cols = g[W_SW] - g[W_FW] - g[W_FE], sides = g[W_FW] + g[W_FE];
	y -= g[W_FN];
	if (y < 0) return -2 - ((y + g[W_FN]) * g[W_SW] + x) * 16;
	if (y >= rows) return -2 - ((y - rows + g[W_FN]) * g[W_SW] + x) * 16;
	long side = (g[W_FN] + g[W_FS]) * g[W_SW] + y * sides;
	x -= g[W_FW];
	if (x < 0) return -2 - (side + x + g[W_FW]) * 16;
	if (x >= cols) return -2 - (side + x - cols + g[W_FW]) * 16;
	return (y * cols + x) * 16;
}

// Where a tile lies.
typedef struct { long n, z, y, x; } tile_at;
static tile_at tile_of(const wino *j, long t) {
	tile_at a;
	a.x = t % j->tw * 4;
	t /= j->tw;
	a.y = t % j->th * 4;
	t /= j->th;
	a.z = t % j->td * depth_out[j->g[W_SCHEME]];
	a.n = t / j->td;
	return a;
}

// Offsets of the 6×6 cells of a source tile, as of cell_at, for part q of the filter;
// −1 is zero. Returns whether all cells are in the source.
static int tile_cells(const wino *j, tile_at a, long q, long *cell) {
	const long *g = j->g;
	int all = 1;
	long col[6];
	for (int i = 0; i < 6; i++) {
		long x = a.x - g[W_PADX] + q % j->s * 3 + i;
		if (g[W_WRAP]) x = x < 0 ? x + g[W_SW] : x < g[W_SW] + g[W_PADX] && x >= g[W_SW] ? x - g[W_SW] : x;
		col[i] = x < 0 || x >= g[W_SW] ? -1 : x;
	}
	for (int i = 0; i < 6; i++) {
		long y = a.y - g[W_PADY] + q / j->s * 3 + i;
		for (int k = 0; k < 6; k++) {
			long at = y >= 0 && y < g[W_SH] && col[k] >= 0 ? cell_at(g, y, col[k]) : -1;
			cell[i * 6 + k] = at;
			all &= at >= 0;
		}
	}
	return all;
}

// The products' operands out of the transformed levels.
INLINE void depth_sources(const int scheme, const vec (*d)[36], int k, vec *o) {
	if (scheme == DEPTH_FLAT) {
		o[0] = d[0][k];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = d[0][k] + d[1][k];
		o[1] = d[1][k];
		o[2] = d[0][k];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = d[0][k] - d[2][k];
		o[1] = d[1][k] + d[2][k];
		o[2] = d[2][k] - d[1][k];
		o[3] = d[1][k] - d[3][k];
	} else {
		to_points(ALL_POINTS, d[0] + k, 36, o, 1);
	}
}

// source_part transforms one tile of a chunk of the source into v + p·ps, at the rows lo ≤ i < hi of the 6×6 points.
INLINE void source_part(const int scheme, const int b16, const int form, const int lo, const int hi, const wino *j, tile_at a, const long *cell, int all, chunk c, void *v, long ps, int odd) {
	const long *g = j->g, blocks = (g[c.part ? W_C1 : W_C0] + 15) / 16;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	const void *x = c.part ? j->x1 : j->x0, *halo = c.part ? j->f1 : j->f0;
	const int ni = depth_in[scheme], np = depth_products[scheme];
	for (long cb = 0; cb < (c.n + 15) / 16; cb++) {
		const long nth = (a.n * blocks + c.lo / 16 + cb) * g[W_SD];
		const void *block = at(x, nth * plane, b16);
		for (int l = 0; l < 16; l += VL) {
			vec d[MOST_IN][36], h[36];
			for (int z = 0; z < ni; z++) {
				long level = scheme == DEPTH_DEEP || scheme == DEPTH_CUBE ? a.z - g[W_PADZ] + z : a.z + z;
				if (level < 0 || level >= g[W_SD]) {
					for (int k = 6 * lo; k < 6 * hi; k++) d[z][k] = (vec){};
					continue;
				}
				const void *p = at(block, level * plane + l, b16), *f = edge ? at(halo, (nth + level) * edge + l, b16) : p;
				for (int k = 0; k < 6; k++) {
					vec in[6];
					if (all)
						UNROLL for (int i = 0; i < 6; i++) in[i] = get_vec(p, cell[6 * i + k], b16);
					else
						UNROLL for (int i = 0; i < 6; i++) {
							long c = cell[6 * i + k];
							in[i] = c >= 0 ? get_vec(p, c, b16) : c < -1 ? get_vec(f, -2 - c, b16) : (vec){};
						}
					to_points(lo, hi, in, 1, h + k, 6);
				}
				for (int i = lo; i < hi; i++) to_points(ALL_POINTS, h + 6 * i, 1, d[z] + 6 * i, 1);
			}
			for (int k = 6 * lo; k < 6 * hi; k++) {
				vec o[MOST_PRODUCTS];
				depth_sources(scheme, (const vec(*)[36])d, k, o);
				UNROLL for (int q = 0; q < np; q++) put_point(v, cb * 16 + l + (q * 36 + k) * ps, o[q], form, odd);
			}
		}
	}
}

// ahead asks for what the next tile reads of a block beyond what this one does.
INLINE void ahead(const wino *j, tile_at a, const long *cell, chunk c) {
	const long *g = j->g, blocks = (g[c.part ? W_C1 : W_C0] + 15) / 16;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16;
	const void *block = at(c.part ? j->x1 : j->x0, (a.n * blocks + c.lo / 16) * g[W_SD] * plane, j->x16);
	for (long z = 0; z < depth_in[g[W_SCHEME]]; z++) {
		long level = g[W_SCHEME] == DEPTH_DEEP || g[W_SCHEME] == DEPTH_CUBE ? a.z - g[W_PADZ] + z : a.z + z;
		if (level < 0 || level >= g[W_SD]) continue;
		const void *p = at(block, level * plane, j->x16);
		for (int i = 0; i < 6; i++)
			for (int k = 2; k < 6; k++)
				if (cell[6 * i + k] >= 0) __builtin_prefetch(at(p, cell[6 * i + k] + 4 * 16, j->x16));
	}
}

// source_points transforms chunks i… before end of a tile to v + p·ps, at rows of points. Each store
// writes whole vectors: what runs over the end of a row is overwritten by the
// next one.
INLINE void source_points(const int lo, const int hi, const wino *j, long t, long i, long end, void *v, long ps, int form) {
	tile_at a = tile_of(j, t);
	long cell[9][36];
	int all[9];
	for (long q = 0; q < j->ss; q++) all[q] = tile_cells(j, a, q, cell[q]);
	for (; i < end; i++) {
		chunk c = chunk_at(j, i);
		if (j->far && j->ss == 1)
			for (chunk b = c; b.lo < c.lo + c.n; b.lo += 16) ahead(j, a, cell[0], b);
		for (long q = 0; q < j->ss; q++, v = at(v, c.rows, form == AS_ROWS))
			BY_FORM(source_part, j->g[W_SCHEME], j->x16, form, lo, hi, j, a, cell[q], all[q], c, v, ps, t & 1)
	}
}

static void source_tile(const wino *j, long t, long i, long end, void *v, long ps, int form) { source_points(ALL_POINTS, j, t, i, end, v, ps, form); }

// The filters of the products out of the levels of a filter: t[kD][9 taps].
INLINE void depth_filters(const int scheme, const vec (*w)[9], int k, vec *o) {
	if (scheme == DEPTH_FLAT) {
		o[0] = w[0][k];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = w[1][k];
		o[1] = w[2][k] - w[1][k];
		o[2] = w[0][k] - w[1][k];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = w[0][k];
		o[1] = 0.5f * (w[0][k] + w[1][k] + w[2][k]);
		o[2] = 0.5f * (w[0][k] - w[1][k] + w[2][k]);
		o[3] = w[2][k];
	} else {
		taps_to_points(w[0] + k, 9, o, 1);
	}
}

// tap_place is the tap of a level of the filter that is tap k of its part q; −1
// if it lies beyond.
INLINE long tap_place(const wino *j, long q, long level, int k) {
	const long ks = j->g[W_KS], y = q / j->s * 3 + k / 3, x = q % j->s * 3 + k % 3;
	return y < ks && x < ks ? (level * ks + y) * ks + x : -1;
}

// filter_points transforms part q of VL filters of one source channel, given as
// taps at distance ts, to u + p·ps.
INLINE void filter_points(const int scheme, const int form, const wino *j, long q, const float *taps, long ts, float *u, long ps, int odd) {
	const int np = depth_products[scheme];
	vec w[3][9], m[MOST_PRODUCTS][9];
	for (int z = 0; z < (scheme == DEPTH_FLAT ? 1 : 3); z++) {
		long level = scheme == DEPTH_FLAT ? j->g[W_KD] / 2 : z; // of three levels over one, the middle
		for (int k = 0; k < 9; k++) {
			long at = tap_place(j, q, level, k);
			w[z][k] = at < 0 ? (vec){} : load(taps + at * ts);
		}
	}
	for (int k = 0; k < 9; k++) {
		vec o[MOST_PRODUCTS];
		depth_filters(scheme, (const vec(*)[9])w, k, o);
		for (int q = 0; q < np; q++) m[q][k] = o[q];
	}
	ROLLED for (int q = 0; q < np; q++) {
		vec h[18];
		UNROLL for (int k = 0; k < 3; k++) taps_to_points(m[q] + k, 3, h + k, 3);
		ROLLED for (int i = 0; i < 6; i++) {
			vec o[6];
			taps_to_points(h + 3 * i, 1, o, 1);
			UNROLL for (int k = 0; k < 6; k++) put_point(u, (q * 36 + 6 * i + k) * ps, o[k], form, odd);
		}
	}
}

// gather_taps copies the filters between n source channels from c on and the
// result channels k0… to taps[n][taps][nb]; columns beyond the last are zero.
static void gather_taps(const wino *j, long c, long n, long k0, long nb, float *taps) {
	const long *g = j->g, t = j->taps;
	for (long l = 0; l < nb; l += VL) {
		long have = MIN(VL, g[W_K] - k0 - l);
		if (g[W_FLIP])
			for (long i = 0; i < n; i++)
				transpose_tile(taps + ((i + 1) * t - 1) * nb + l, -nb, j->w + ((c + i) * g[W_WI] + g[W_WLO] + k0 + l) * t, t, have, t);
		else
			transpose_tile(taps + l, nb, j->w + ((k0 + l) * g[W_WI] + g[W_WLO] + c) * t, g[W_WI] * t, have, n * t);
	}
}

// Source channels whose filters are transformed together, and room for them.
enum { RUN_TAPS = 3 * 81 };
INLINE long run_of(const wino *j) { return MAX(1, 108 / j->taps); }

// in_pairs is the number of words of n values of a transformed filter.
INLINE long in_pairs(const wino *j, long n) { return j->half ? n / 2 : n; }

// filter_block transforms the filters of a chunk and of one column block:
// u[points][S²][channels][nb] at distance ps, or with halves [channels/2][nb][2].
static void filter_block(const wino *j, chunk k, long k0, long nb, float *u, long ps) {
	float taps[RUN_TAPS * NB];
	for (long c = 0, run = run_of(j); c < k.n; c += run) {
		long n = MIN(run, k.n - c);
		gather_taps(j, k.start + c, n, k0, nb, taps);
		for (long i = 0; i < n; i++)
			for (long q = 0; q < j->ss; q++)
				for (long l = 0; l < nb; l += VL) {
					const float *from = taps + i * j->taps * nb + l;
					float *to = u + (in_pairs(j, q * k.rows) + (j->half ? (c + i) / 2 : c + i)) * nb + l;
					if (HALVES && j->half)
						BY_SCHEME(filter_points, j->g[W_SCHEME], AS_HALVES, j, q, from, nb, to, ps, (c + i) & 1)
					else
						BY_SCHEME(filter_points, j->g[W_SCHEME], AS_WORDS, j, q, from, nb, to, ps, 0)
				}
	}
}

// Level z of the result out of the products at p + q·36·ps.
INLINE vec depth_result(const int scheme, const float *p, long ps, int z) {
	if (scheme == DEPTH_FLAT) return load(p);
	if (scheme == DEPTH_PAIR) return load(p) + load(p + 36 * (z + 1) * ps);
	if (z == 0) return load(p) + load(p + 36 * ps) + load(p + 72 * ps);
	return load(p + 36 * ps) - load(p + 72 * ps) - load(p + 108 * ps);
}

// source_row are the offsets of n cells of the source, as of cell_at, that a window which begins in row y
// and column x of the result reads in its first row; −1 is padding.
static void source_row(const long *g, long y, long x, long n, long *cell) {
	const long r = y - g[W_PADY];
	for (long k = 0; k < n; k++) {
		long c = x - g[W_PADX] + k;
		if (g[W_WRAP]) c = c < 0 ? c + g[W_SW] : c >= g[W_SW] && c < g[W_SW] + g[W_PADX] ? c - g[W_SW] : c;
		cell[k] = r < 0 || r >= g[W_SH] || c < 0 || c >= g[W_SW] ? -1 : cell_at(g, r, c);
	}
}

// source_rows are those of the side×side cells of the window.
static void source_rows(const long *g, long y, long x, long side, long *cell) {
	for (long i = 0; i < side; i++) source_row(g, y + i, x, side, cell + i * side);
}

// source_value is the value of channel c of the source at an offset of source_rows.
INLINE float source_value(const wino *j, long n, long c, long level, long cell) {
	const long *g = j->g, part = c >= g[W_C0], ch = part ? c - g[W_C0] : c, blocks = (g[part ? W_C1 : W_C0] + 15) / 16;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	const long nth = (n * blocks + ch / 16) * g[W_SD] + level;
	if (cell >= 0) return get(part ? j->x1 : j->x0, nth * plane + cell + ch % 16, j->x16);
	return get(part ? j->f1 : j->f0, nth * edge - 2 - cell + ch % 16, j->x16);
}

enum { MOST_SIDE = 9 }; // largest side of a filter

// plain_cells computes the 4×4 cells of one level of the result by the sum of the definition,
// for VL channels from k on. The transforms spread a NaN or infinity over the whole tile and
// lose the sign of an infinity; sums as they stand keep them where they belong. Padding is no
// term of the sum.
static __attribute__((noinline, cold)) void plain_cells(const wino *j, tile_at a, int z, long k, vec *o) {
	const long *g = j->g, ks = g[W_KS], t = j->taps, side = ks + 3;
	long cell[(MOST_SIDE + 3) * (MOST_SIDE + 3)];
	double sum[16][VL];
	source_rows(g, a.y, a.x, side, cell);
	memset(sum, 0, sizeof sum);
	for (long c = 0; c < g[W_C0] + g[W_C1]; c++)
		for (long zt = 0; zt < g[W_KD]; zt++) {
			long level = a.z + z - g[W_PADZ] + zt;
			if (level < 0 || level >= g[W_SD]) continue;
			float x[(MOST_SIDE + 3) * (MOST_SIDE + 3)];
			for (long i = 0; i < side * side; i++) x[i] = cell[i] == -1 ? 0 : source_value(j, a.n, c, level, cell[i]);
			for (long yt = 0; yt < ks; yt++)
				for (long xt = 0; xt < ks; xt++) {
					const long tap = (zt * ks + yt) * ks + xt;
					float f[VL] = {0};
					for (long l = 0; l < MIN(VL, g[W_K] - k); l++)
						f[l] = g[W_FLIP] ? j->w[(c * g[W_WI] + g[W_WLO] + k + l) * t + t - 1 - tap] : j->w[((k + l) * g[W_WI] + g[W_WLO] + c) * t + tap];
					for (int i = 0; i < 16; i++) {
						const long at = (i / 4 + yt) * side + i % 4 + xt;
						if (cell[at] == -1) continue;
						for (int l = 0; l < VL; l++) sum[i][l] += (double)x[at] * f[l];
					}
				}
		}
	for (int i = 0; i < 16; i++) {
		float r[VL];
		for (int l = 0; l < VL; l++) r[l] = sum[i][l];
		o[i] = first_lanes(load(r), g[W_K] - k);
	}
}

// result_points: products m at distance ps to the result's VL channels; the
// tile's 4×4 cells of every level. Cells that come out as NaN or infinite are recomputed
// by plain_cells.
INLINE void result_points(const int scheme, const int b16, const wino *j, tile_at a, const float *m, long ps, long k, vec bias) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16;
	const int no = depth_out[scheme];
	vec d[MOST_OUT][36];
	for (int i = 0; scheme == DEPTH_CUBE && i < 36; i++) {
		vec p[MOST_PRODUCTS];
		UNROLL for (int q = 0; q < MOST_PRODUCTS; q++) p[q] = load(m + (36 * q + i) * ps);
		from_points(p, 1, d[0] + i, 36);
	}
	for (int z = 0; z < no && a.z + z < g[W_D]; z++) {
		vec h[24], o[16], all = {};
		for (int c = 0; c < 6; c++) {
			vec e[6];
			UNROLL for (int i = 0; i < 6; i++) e[i] = scheme == DEPTH_CUBE ? d[z][6 * i + c] : depth_result(scheme, m + (6 * i + c) * ps, ps, z);
			from_points(e, 1, h + c, 6);
		}
		for (int i = 0; i < 4; i++) {
			from_points(h + 6 * i, 1, o + 4 * i, 1);
			all += (o[4 * i] + o[4 * i + 1]) + (o[4 * i + 2] + o[4 * i + 3]);
		}
		if (__builtin_expect(any_nan(all - all), 0)) plain_cells(j, a, z, k, o);
		long at = ((a.n * ((g[W_K] + 15) / 16) + k / 16) * g[W_D] + a.z + z) * plane + k % 16;
		for (int i = 0; i < 4 && a.y + i < g[W_H]; i++) {
			long row = at + ((a.y + i) * g[W_W] + a.x) * 16;
			for (int c = 0; c < 4 && a.x + c < g[W_W]; c++) {
				vec r = o[4 * i + c] + bias;
				if (g[W_RELU]) r = relu_of(r);
				if (j->plus) r += get_vec(j->plus, row + c * 16, b16);
				if (j->gate) r = keep(r, get_vec(j->gate, row + c * 16, b16) > 0);
				put_vec(j->y, row + c * 16, r, b16);
			}
		}
	}
}

// result_tile writes the columns k0…k0+nb of a tile.
static void result_tile(const wino *j, long t, const float *m, long ps, long k0, long nb) {
	tile_at a = tile_of(j, t);
	float bias[NB] = {0};
	if (j->bias) memcpy(bias, j->bias + k0, MIN(nb, j->g[W_K] - k0) * sizeof *bias);
	for (long l = 0; l < nb; l += VL)
		BY_STORAGE(result_points, j->g[W_SCHEME], j->y16, j, a, m + l, ps, k0 + l, load(bias + l))
}

// Columns of block b: 32, or 16 in a last one.
// near asks for the cells of a tile of block b of a field like the result.
INLINE void near(const wino *j, const void *field, const int b16, tile_at a, long b, const int written) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16, from = ((a.n * ((g[W_K] + 15) / 16) + b) * g[W_D] + a.z) * plane;
	for (long z = 0; z < depth_out[g[W_SCHEME]] && a.z + z < g[W_D]; z++)
		for (long i = 0; i < 4 && a.y + i < g[W_H]; i++)
			for (long c = 0; c < 4; c++) __builtin_prefetch(at(field, from + z * plane + ((a.y + i) * g[W_W] + a.x + c) * 16, b16), written);
}

INLINE long block_cols(const long *g, long b) { return MIN(NB, (g[W_K] + 15) / 16 * 16 - b * NB); }

// All rows of a transformed filter, and its parts in shared scratch: column
// blocks, in them points, in them chunks.
INLINE long filter_rows(const wino *j) { return j->ss * j->c; }
INLINE float *filter_at(const wino *j, long b) { return j->shared + b * j->points * in_pairs(j, filter_rows(j)) * NB; }

static void wino_filter_item(void *v, long i) {
	const wino *j = v;
	long chunks = j->chunks[0] + j->chunks[1], b = i / chunks, nb = block_cols(j->g, b);
	chunk k = chunk_at(j, i % chunks);
	filter_block(j, k, b * NB, nb, filter_at(j, b) + in_pairs(j, j->ss * k.row) * nb, in_pairs(j, filter_rows(j)) * nb);
}

// The products of transformed tiles with transformed filters, kc source channels
// deep.
INLINE void mm_rows_of_form(const wino *j, long rows, long cols, long kc, const float *a, long as, const float *b, long bs, float *c, long cs, int add) {
#if HALVES
	if (j->half) {
		mm_rows_half(rows, cols, kc / 2, a, as / 2, b, bs, c, cs, add);
		return;
	}
#endif
	mm_rows(rows, cols, kc, a, as, b, bs, c, cs, add);
}

// Many tiles: each item transforms a block of tiles and takes it through all
// filters, which lie transformed in shared scratch. With S > 1 a transformed
// tile is large, and goes chunk by chunk.
static void wino_tiles_item(void *arg, long i) {
	const wino *j = arg;
	const long *g = j->g, first = (j->items ? j->items[i] : i) * g[W_TILES], n = MIN(g[W_TILES], j->tiles - first), chunks = j->chunks[0] + j->chunks[1];
	const long step = j->ss > 1 ? 1 : chunks, row = tile_row(j), rows = filter_rows(j);
	long vs = point_stride(g[W_TILES], row), ms = point_stride(g[W_TILES], NB);
	float *v = j->own + ens_thread() * j->ownlen, *m = v + in_pairs(j, j->points * vs);
	for (long k = 0; k < chunks; k += step) {
		long start = chunk_at(j, k).row * j->ss, end = k + step < chunks ? chunk_at(j, k + step).row * j->ss : rows;
		for (long t = 0; t < n; t++) source_tile(j, first + t, k, k + step, at(v, t * row, j->half), vs, j->half ? AS_ROWS : AS_WORDS);
		for (long b = 0; b * NB < g[W_K]; b++) {
			long nb = block_cols(g, b);
			const float *u = filter_at(j, b) + in_pairs(j, start) * nb;
			float *mb = m + (step == chunks ? 0 : b * j->points * ms);
			for (long p = 0; p < j->points; p++)
				mm_rows_of_form(j, n, nb, end - start, at(v, p * vs, j->half), row, u + p * in_pairs(j, rows) * nb, nb, mb + p * ms, nb, k > 0);
			if (k + step < chunks) continue;
			for (long t = 0; t < n; t++) {
				if (j->far && t + 1 < n)
					for (long c = 0; c < nb; c += 16) near(j, j->y, j->y16, tile_of(j, first + t + 1), b * (NB / 16) + c / 16, 1);
				result_tile(j, first + t, mb + t * nb, ms, b * NB, nb);
			}
		}
	}
}

// Few tiles: all are transformed to shared scratch, and each item takes them
// through one column block, transforming its filters chunk by chunk.
static void wino_source_item(void *arg, long t) {
	const wino *j = arg;
	source_tile(j, t, 0, j->chunks[0] + j->chunks[1], at(j->shared, t * j->ss * j->cs, j->half), point_stride(j->tiles, j->ss * j->cs), j->half ? AS_ROWS : AS_WORDS);
}

static void wino_columns_item(void *arg, long i) {
	const wino *j = arg;
	const long halved = MAX(0, i - j->full), k0 = (i - halved) * NB + halved * (NB / 2), nb = i < j->full ? NB : NB / 2, row = j->ss * j->cs;
	long vs = point_stride(j->tiles, row), us = in_pairs(j, point_stride(j->ss * CHUNK_C, nb)), ms = point_stride(j->tiles, nb);
	float *u = j->own + ens_thread() * j->ownlen, *m = u + in_pairs(j, j->points * point_stride(j->ss * CHUNK_C, NB));
	for (long c = 0; c < j->chunks[0] + j->chunks[1]; c++) {
		chunk k = chunk_at(j, c);
		filter_block(j, k, k0, nb, u, us);
		for (long p = 0; p < j->points; p++)
			mm_rows_of_form(j, j->tiles, nb, j->ss * k.rows, at(j->shared, p * vs + j->ss * k.row, j->half), row, u + p * us, nb, m + p * ms, nb, c > 0);
	}
	for (long t = 0; t < j->tiles; t++) result_tile(j, t, m + t * nb, ms, k0, nb);
}

// y = conv(x, w) (+ bias) (ReLU) (+ plus), or with W_FLIP its adjoint; where
// gate is given, only where it is positive. y may be plus. Of many tiles those in some
// blocks may be meant; again tells that scratch has the filters from a call before.
static void k_wino(ens_pool *p, int x16, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g, const long *items, long count, int again) {
	wino j = wino_job(g, 1);
	j.items = items;
	j.x16 = x16, j.y16 = y16, j.x0 = x0, j.x1 = x1, j.f0 = f0, j.f1 = f1, j.w = w, j.bias = bias, j.gate = gate, j.plus = plus, j.y = y, j.shared = scratch;
	long blocks = (g[W_K] + NB - 1) / NB;
	if (g[W_WHOLE]) {
		j.own = scratch + in_pairs(&j, j.points * point_stride(j.tiles, j.ss * j.cs));
		j.ownlen = j.points * (in_pairs(&j, point_stride(j.ss * CHUNK_C, NB)) + point_stride(j.tiles, NB));
		ens_parallel(p, wino_source_item, &j, j.tiles);
		// Blocks that not all threads would have one of are halved.
		long halves = (g[W_K] + NB / 2 - 1) / (NB / 2), whole = halves / 2;
		j.full = whole - whole % (p ? ens_pool_threads(p) : 1);
		ens_parallel(p, wino_columns_item, &j, halves - j.full);
	} else {
		j.far = g[W_N] * ((g[W_C0] + g[W_C1]) * g[W_SD] * g[W_SH] * g[W_SW] + g[W_K] * g[W_D] * g[W_H] * g[W_W]) > WINO_NEAR;
		j.own = filter_at(&j, blocks);
		j.ownlen = j.points * (in_pairs(&j, point_stride(g[W_TILES], tile_row(&j))) + (j.ss > 1 ? blocks : 1) * point_stride(g[W_TILES], NB));
		if (!again) ens_parallel(p, wino_filter_item, &j, blocks * (j.chunks[0] + j.chunks[1]));
		ens_parallel(p, wino_tiles_item, &j, items ? count : (j.tiles + g[W_TILES] - 1) / g[W_TILES]);
	}
}

// --- the filter's gradient ---------------------------------------------------

// The products' operands out of the transformed levels of the result's
// gradient: the adjoint of result_points.
INLINE void depth_results(const int scheme, const vec (*d)[36], int k, vec *o) {
	if (scheme == DEPTH_FLAT) {
		o[0] = d[0][k];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = d[0][k] + d[1][k];
		o[1] = d[0][k];
		o[2] = d[1][k];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = d[0][k];
		o[1] = d[0][k] + d[1][k];
		o[2] = d[0][k] - d[1][k];
		o[3] = -d[1][k];
	} else {
		grad_to_points(ALL_POINTS, d[0] + k, 36, o, 1);
	}
}

// gradient_part transforms one tile of block kb of the result's gradient to v + p·ps, at rows of points.
INLINE void gradient_part(const int scheme, const int b16, const int form, const int lo, const int hi, const wino *j, tile_at a, long kb, float *v, long ps, int odd) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16, blocks = (g[W_K] + 15) / 16;
	const int no = depth_out[scheme], np = depth_products[scheme];
	long h = MIN(4, g[W_H] - a.y), w = MIN(4, g[W_W] - a.x);
	const void *from = at(j->dy, ((a.n * blocks + kb) * g[W_D] + a.z) * plane + (a.y * g[W_W] + a.x) * 16, b16);
	for (int l = 0; l < 16; l += VL) {
		vec d[MOST_OUT][36], r[24];
		for (int z = 0; z < no; z++) {
			if (a.z + z >= g[W_D]) {
				for (int k = 6 * lo; k < 6 * hi; k++) d[z][k] = (vec){};
				continue;
			}
			for (int k = 0; k < 4; k++) {
				vec in[4];
				UNROLL for (int i = 0; i < 4; i++)
					in[i] = i < h && k < w ? get_vec(from, z * plane + (i * g[W_W] + k) * 16 + l, b16) : (vec){};
				grad_to_points(lo, hi, in, 1, r + k, 4);
			}
			for (int i = lo; i < hi; i++) grad_to_points(ALL_POINTS, r + 4 * i, 1, d[z] + 6 * i, 1);
		}
		for (int k = 6 * lo; k < 6 * hi; k++) {
			vec o[MOST_PRODUCTS];
			depth_results(scheme, (const vec(*)[36])d, k, o);
			UNROLL for (int q = 0; q < np; q++) put_point(v, l + (q * 36 + k) * ps, o[q], form, odd);
		}
	}
}

INLINE void gradient_points(const int lo, const int hi, const wino *j, long t, float *v, long ps, int form) {
	tile_at a = tile_of(j, t);
	for (long kb = 0; kb < (j->g[W_K] + 15) / 16; kb++)
		BY_FORM(gradient_part, j->g[W_SCHEME], j->x16, form, lo, hi, j, a, kb, v + kb * 16, ps, t & 1)
}

// filter_taps turns the products' gradients u + p·ps of part q of VL filters
// into those of its taps, at distance ts.
INLINE void filter_taps(const int scheme, const wino *j, long q0, const float *u, long ps, float *taps, long ts) {
	const long kd = j->g[W_KD], level = j->g[W_KS] * j->g[W_KS] * ts;
	const int np = depth_products[scheme];
	vec m[MOST_PRODUCTS][9];
	ROLLED for (int q = 0; q < np; q++) {
		vec h[18];
		ROLLED for (int k = 0; k < 6; k++) {
			vec in[6];
			UNROLL for (int i = 0; i < 6; i++) in[i] = load(u + (q * 36 + 6 * i + k) * ps);
			points_to_taps(in, 1, h + k, 6);
		}
		UNROLL for (int i = 0; i < 3; i++) points_to_taps(h + 6 * i, 1, m[q] + 3 * i, 1);
	}
	for (int k = 0; k < 9; k++) {
		long at = tap_place(j, q0, 0, k);
		if (at < 0) continue;
		float *to = taps + at * ts;
		if (scheme == DEPTH_FLAT) {
			for (long z = 0; z < kd; z++) store(to + z * level, z == kd / 2 ? m[0][k] : (vec){});
		} else if (scheme == DEPTH_PAIR) {
			store(to, m[2][k]);
			store(to + level, m[0][k] - m[1][k] - m[2][k]);
			store(to + 2 * level, m[1][k]);
		} else if (scheme == DEPTH_CUBE) {
			vec t[3];
			points_to_taps(m[0] + k, 9, t, 1);
			for (int z = 0; z < 3; z++) store(to + z * level, t[z]);
		} else {
			vec s = m[1][k] + m[2][k];
			store(to, add_mul(m[0][k], 0.5f, s));
			store(to + level, 0.5f * (m[1][k] - m[2][k]));
			store(to + 2 * level, add_mul(m[3][k], 0.5f, s));
		}
	}
}

// plain_taps computes the gradients of the filters between channel c of the source and nb channels
// of the result from k0 on by the sum of the definition: taps[taps][nb].
static __attribute__((noinline, cold)) void plain_taps(const wino *j, long c, long k0, long nb, float *taps) {
	const long *g = j->g, ks = g[W_KS], plane = g[W_H] * g[W_W] * 16, blocks = (g[W_K] + 15) / 16;
	double sum[3 * MOST_SIDE * MOST_SIDE][NB];
	memset(sum, 0, j->taps * sizeof *sum);
	for (long n = 0; n < g[W_N]; n++)
		for (long z = 0; z < g[W_D]; z++)
			for (long y = 0; y < g[W_H]; y++)
				for (long x = 0; x < g[W_W]; x++) {
					float dy[NB];
					long cell[MOST_SIDE * MOST_SIDE];
					for (long b = 0; b < nb / 16; b++)
						for (long l = 0; l < 16; l++)
							dy[b * 16 + l] = get(j->dy, ((n * blocks + k0 / 16 + b) * g[W_D] + z) * plane + (y * g[W_W] + x) * 16 + l, j->x16);
					source_rows(g, y, x, ks, cell);
					for (long tap = 0; tap < j->taps; tap++) {
						const long level = z - g[W_PADZ] + tap / (ks * ks), at = cell[tap % (ks * ks)];
						if (level < 0 || level >= g[W_SD] || at == -1) continue;
						const double v = source_value(j, n, c, level, at);
						for (long l = 0; l < nb; l++) sum[tap][l] += v * dy[l];
					}
				}
	for (long tap = 0; tap < j->taps; tap++)
		for (long l = 0; l < nb; l++) taps[tap * nb + l] = sum[tap][l];
}

// scatter_taps writes the gradients of a chunk and one column block from
// u[points][S²][channels][us] at distance ps.
static void scatter_taps(const wino *j, chunk k, long k0, long nb, const float *u, long us, long ps) {
	const long *g = j->g, t = j->taps;
	float taps[RUN_TAPS * NB];
	for (long c = 0, run = run_of(j); c < k.n; c += run) {
		long n = MIN(run, k.n - c);
		for (long i = 0; i < n; i++, u += us) {
			for (long q = 0; q < j->ss; q++)
				for (long l = 0; l < nb; l += VL) {
					const float *from = u + q * k.n * us + l;
					float *to = taps + i * t * nb + l;
					BY_SCHEME(filter_taps, g[W_SCHEME], j, q, from, ps, to, nb)
				}
			vec all = {};
			for (long q = 0; q < t * nb; q += VL) all += load(taps + i * t * nb + q);
			if (__builtin_expect(any_nan(all - all), 0)) plain_taps(j, k.start + c + i, k0, nb, taps + i * t * nb);
		}
		for (long l = 0; l < nb; l += VL) {
			long have = MIN(VL, g[W_K] - k0 - l);
			if (have > 0)
				untranspose_tile((float *)j->y + ((k0 + l) * g[W_WI] + g[W_WLO] + k.start + c) * t, g[W_WI] * t, taps + l, nb, have, n * t);
		}
	}
}

// The blocks of tiles of the filter's gradient: transformed gradients lie behind
// the transformed sources in shared scratch, sums of products in j->own. With
// S > 1 the chunks of the source go one after the other. As halves two tiles lie
// in one line.
INLINE long lines_of(const wino *j, long tiles) { return j->half ? (tiles + 1) / 2 : tiles; }
INLINE long source_stride(const wino *j) { return point_stride(lines_of(j, j->block), tile_row(j)); }
INLINE long gradient_stride(const wino *j) { return point_stride(lines_of(j, j->block), j->ks); }
INLINE float *gradients_at(const wino *j) { return j->shared + j->points * source_stride(j); }

// both_points transforms the tiles of a line.
static void both_points(const int lo, const int hi, const wino *j, long line) {
	const int pair = 1 + j->half, form = j->half ? AS_HALVES : AS_WORDS;
	for (long t = line * pair; t < MIN(j->count, (line + 1) * pair); t++) {
		source_points(lo, hi, j, j->first + t, j->chunk, j->chunk + j->step, j->shared + line * tile_row(j), source_stride(j), form);
		if (j->chunk == 0 || j->block < j->tiles) gradient_points(lo, hi, j, j->first + t, gradients_at(j) + line * j->ks, gradient_stride(j), form);
	}
}

static void wino_both_item(void *arg, long line) { both_points(ALL_POINTS, arg, line); }

// The products of transformed sources with transformed gradients, summed over tiles.
INLINE void mm_cols_of_form(const wino *j, long rows, long cols, long tiles, const float *a, long as, const float *b, long bs, float *c, long cs, int add) {
#if HALVES
	if (j->half) {
		mm_cols_half(rows, cols, lines_of(j, tiles), a, as, b, bs, c, cs, add);
		return;
	}
#endif
	mm_cols(rows, cols, tiles, a, as, b, bs, c, cs, add);
}

// Rows of the present chunks.
INLINE long present_rows(const wino *j) {
	chunk last = chunk_at(j, j->chunk + j->step - 1);
	return j->ss * (last.start + last.n - chunk_at(j, j->chunk).start);
}

// Many tiles: each item adds a block's products at one point.
static void wino_point_item(void *arg, long p) {
	const wino *j = arg;
	long rows = present_rows(j), row = tile_row(j), us = point_stride(rows, j->ks);
	mm_cols_of_form(j, rows, j->ks, j->count, j->shared + p * source_stride(j), row,
			gradients_at(j) + p * gradient_stride(j), j->ks, j->own + p * us, j->ks, j->first > 0);
}

// Few channels on some threads: each item takes all blocks of tiles through its rows of points. Transformed values,
// which take longer to fetch from another thread's cache than to compute, so stay with the thread that made them.
static void wino_rows_item(void *arg, long i) {
	wino j = *(const wino *)arg;
	const long lo = j.g[W_ROWS] * i, hi = lo + j.g[W_ROWS];
	for (j.first = 0; j.first < j.tiles; j.first += j.block) {
		j.count = MIN(j.block, j.tiles - j.first);
		for (long line = 0; line < lines_of(&j, j.count); line++) both_points(lo, hi, &j, line);
		for (long q = 0; q < j.points; q += 36)
			for (long p = 6 * lo; p < 6 * hi; p++) wino_point_item(&j, q + p);
	}
}

static void wino_taps_item(void *arg, long i) {
	const wino *j = arg;
	long b = i / j->step;
	chunk k = chunk_at(j, j->chunk + i % j->step);
	const float *u = j->own + j->ss * (k.start - chunk_at(j, j->chunk).start) * j->ks;
	scatter_taps(j, k, b * NB, block_cols(j->g, b), u + b * NB, j->ks, point_stride(present_rows(j), j->ks));
}

// Few tiles: each item makes all products of one chunk and turns them into taps.
static void wino_chunk_item(void *arg, long i) {
	const wino *j = arg;
	long b = i / j->step, nb = block_cols(j->g, b);
	chunk k = chunk_at(j, i % j->step);
	long vs = source_stride(j), ds = gradient_stride(j), us = point_stride(CHUNK_C, nb);
	float *u = j->own + ens_thread() * j->ownlen;
	for (long p = 0; p < j->points; p++)
		mm_cols_of_form(j, k.n, nb, j->tiles, j->shared + p * vs + k.start, j->cs, gradients_at(j) + p * ds + b * NB, j->ks, u + p * us, nb, 0);
	scatter_taps(j, k, b * NB, nb, u, nb, us);
}

// dw = gradient of the filter between source channels 0…C0+C1 and dy.
static void k_wino_filter(ens_pool *p, int b16, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g) {
	wino j = wino_job(g, 0);
	j.x16 = b16, j.x0 = x0, j.x1 = x1, j.f0 = f0, j.f1 = f1, j.dy = dy, j.y = dw, j.shared = scratch;
	j.ks = (g[W_K] + 15) / 16 * 16;
	long chunks = j.chunks[0] + j.chunks[1], blocks = (g[W_K] + NB - 1) / NB;
	int whole = g[W_WHOLE] && j.ss == 1;
	j.block = g[W_WHOLE] ? j.tiles : MIN(g[W_TILES], j.tiles);
	j.step = j.ss > 1 ? 1 : chunks;
	j.own = gradients_at(&j) + j.points * gradient_stride(&j);
	j.ownlen = j.points * point_stride(CHUNK_C, NB);
	for (; j.chunk < chunks; j.chunk += j.step) {
		if (g[W_ROWS]) ens_parallel(p, wino_rows_item, &j, 6 / g[W_ROWS]);
		for (j.first = 0; !g[W_ROWS] && j.first < j.tiles; j.first += j.block) {
			j.count = MIN(j.block, j.tiles - j.first);
			ens_parallel(p, wino_both_item, &j, lines_of(&j, j.count));
			ens_parallel(p, whole ? wino_chunk_item : wino_point_item, &j, whole ? blocks * chunks : j.points);
		}
		if (!whole) ens_parallel(p, wino_taps_item, &j, blocks * j.step);
	}
}
