// Winograd's minimal convolutions on the blocked layout, for filters of kD×k×k,
// stride 1: over the field F(M×M, R×R), and over the levels one of the depth
// schemes below. With T = M+R−1 all three passes are T²·P small matrix products between
// transformed tensors. F(4, 3) serves filters of 3×3; single levels of wider ones have
// F(4, 5) and F(5, 4).
//
// Filters wider than R are cut into S×S filters of R×R, S = ⌈k/R⌉, with zeros
// where R·S exceeds k; filters of k = 1 are 3×3 with eight zeros. Each of the S²
// sees the source R cells further on, and all add up in the products, as
// S² times as many source channels would.
//
// The six points are 0, ±5/8, ±3/2 and ∞. Their error is half of that with the
// customary 0, ±1, ±2, ∞ (twice that of the plain sum at 64 channels), and the
// squares that occur are exact in float32. The eight are 0, ±1/2, ±1, ±2 and ∞, the best
// found, with four to seven times the error of the six.
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
enum { MOST_POINTS = 8, MOST_TAPS = 5, MOST_CELLS = 5 };
#define ALL_POINTS 0, MOST_POINTS

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

// The same with the eight points 0, ±a, ±b, ±c and ∞, for any numbers M of results and R of taps.
#define P8A 0.5f
#define P8B 1.f
#define P8C 2.f

// pair_to_points is B' at the points ±p, where ±q and ±r are the others.
INLINE void pair_to_points(const float p, const float q, const float r, const vec *i, const int s, vec *plus, vec *minus) {
	const float sum = q * q + r * r, product = q * q * r * r;
	vec even = add_mul(sub_mul(i[6 * s], sum, i[4 * s]), product, i[2 * s]), odd = add_mul(sub_mul(i[5 * s], sum, i[3 * s]), product, i[s]);
	*plus = add_mul(even, p, odd);
	*minus = sub_mul(even, p, odd);
}

// Eight values against eight points. Twenty-four multiply-adds.
INLINE void to_eight(const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	const float a = P8A, b = P8B, c = P8C, aa = a * a, bb = b * b, cc = c * c;
	const float one = aa + bb + cc, two = aa * bb + aa * cc + bb * cc, three = aa * bb * cc; // of the squares: sum, sum of products, product
	if (lo < 3) {
		o[0] = sub_mul(add_mul(sub_mul(i[6 * s], one, i[4 * s]), two, i[2 * s]), three, i[0]);
		pair_to_points(a, b, c, i, s, o + q, o + 2 * q);
	}
	if (lo < 5 && hi > 3) pair_to_points(b, a, c, i, s, o + 3 * q, o + 4 * q);
	if (hi > 5) {
		pair_to_points(c, a, b, i, s, o + 5 * q, o + 6 * q);
		o[7 * q] = sub_mul(add_mul(sub_mul(i[7 * s], one, i[5 * s]), two, i[3 * s]), three, i[s]);
	}
}

// from_pairs is the sum over the pairs of points of fa, fb or fc times p^k times the values at both points.
INLINE vec from_pairs(const int k, float fa, float fb, float fc, const vec *i, const int s) {
	UNROLL for (int n = 0; n < k; n++) fa *= P8A, fb *= P8B, fc *= P8C;
	if (k % 2) return add_mul(add_mul(fc * (i[5 * s] - i[6 * s]), fb, i[3 * s] - i[4 * s]), fa, i[s] - i[2 * s]);
	return add_mul(add_mul(fc * (i[5 * s] + i[6 * s]), fb, i[3 * s] + i[4 * s]), fa, i[s] + i[2 * s]);
}

// A' of the result: eight products to m values.
INLINE void from_eight(const int m, const vec *i, const int s, vec *o, const int q) {
	o[0] = i[0] + (i[s] + i[2 * s]) + (i[3 * s] + i[4 * s]) + (i[5 * s] + i[6 * s]);
	UNROLL for (int k = 1; k < m; k++) o[k * q] = from_pairs(k, 1, 1, 1, i, s);
	o[(m - 1) * q] += i[7 * s];
}

// at_pair is the polynomial of n coefficients, times a factor, at the points ±p.
INLINE void at_pair(const int n, const float factor, const float p, const vec *i, const int s, vec *plus, vec *minus) {
	vec even = factor * i[0], odd = factor * p * i[s];
	float power = factor * p * p;
	UNROLL for (int k = 2; k < n; k++, power *= p) {
		if (k % 2) odd = add_mul(odd, power, i[k * s]);
		else even = add_mul(even, power, i[k * s]);
	}
	*plus = even + odd;
	*minus = even - odd;
}

// A of a result's gradient: m values to eight points.
INLINE void grad_to_eight(const int m, const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	if (lo < 3) {
		o[0] = i[0];
		at_pair(m, 1, P8A, i, s, o + q, o + 2 * q);
	}
	if (lo < 5 && hi > 3) at_pair(m, 1, P8B, i, s, o + 3 * q, o + 4 * q);
	if (hi > 5) {
		at_pair(m, 1, P8C, i, s, o + 5 * q, o + 6 * q);
		o[7 * q] = i[(m - 1) * s];
	}
}

#define LAG8(P, Q, R) ((float)(1.0 / (2.0 * P * P * (P * P - Q * Q) * (P * P - R * R))))
#define LAG8_0 ((float)(-1.0 / (P8A * P8A * P8B * P8B * P8C * P8C)))
#define LAG8_A LAG8(P8A, P8B, P8C)
#define LAG8_B LAG8(P8B, P8A, P8C)
#define LAG8_C LAG8(P8C, P8A, P8B)

// G of the filter: n taps to eight points.
INLINE void taps_to_eight(const int n, const vec *i, const int s, vec *o, const int q) {
	o[0] = LAG8_0 * i[0];
	at_pair(n, LAG8_A, P8A, i, s, o + q, o + 2 * q);
	at_pair(n, LAG8_B, P8B, i, s, o + 3 * q, o + 4 * q);
	at_pair(n, LAG8_C, P8C, i, s, o + 5 * q, o + 6 * q);
	o[7 * q] = i[(n - 1) * s];
}

// G' of the filter's gradient: eight points to n taps.
INLINE void eight_to_taps(const int n, const vec *i, const int s, vec *o, const int q) {
	o[0] = add_mul(from_pairs(0, LAG8_A, LAG8_B, LAG8_C, i, s), LAG8_0, i[0]);
	UNROLL for (int k = 1; k < n; k++) o[k * q] = from_pairs(k, LAG8_A, LAG8_B, LAG8_C, i, s);
	o[(n - 1) * q] += i[7 * s];
}

// The schemes: over the levels and over the field.
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
	// As DEPTH_FLAT, with F(4×4, 5×5) and F(5×5, 4×4) over the field.
	FLAT_4_5,
	FLAT_5_4,
};
static const int depth_in[] = {1, 2, 4, 6, 1, 1}, depth_products[] = {1, 3, 4, 6, 1, 1}, depth_out[] = {1, 2, 2, 4, 1, 1};
static const int side_points[] = {6, 6, 6, 6, 8, 8}, side_cells[] = {4, 4, 4, 4, 4, 5}, side_taps[] = {3, 3, 3, 3, 5, 4}; // T, M and R
enum {
	MOST_IN = 6, MOST_PRODUCTS = 6, MOST_OUT = 4,
	LEVEL_TAPS = 3 * 9, PRODUCT_TAPS = 6 * 9, // room for the taps of all levels and of all products: 3×3 in depth, 5×5 on one level
	LEVEL_POINTS = 6 * 36, // room for the points of all levels of a tile: those of DEPTH_CUBE are the most
	MOST_OFFSETS = 9 * 36, // for the cells of all parts of a filter: 3×3 of 6×6 are the most, 2×2 of 8×8 fewer
};

// is_flat reports whether every level is transformed by itself.
INLINE int is_flat(const int scheme) { return depth_in[scheme] == 1; }

// The transforms along an axis of the field, by the scheme.
INLINE void source_axis(const int scheme, const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	if (side_points[scheme] == 6) to_points(lo, hi, i, s, o, q);
	else to_eight(lo, hi, i, s, o, q);
}
INLINE void result_axis(const int scheme, const vec *i, const int s, vec *o, const int q) {
	if (side_points[scheme] == 6) from_points(i, s, o, q);
	else from_eight(side_cells[scheme], i, s, o, q);
}
INLINE void gradient_axis(const int scheme, const int lo, const int hi, const vec *i, const int s, vec *o, const int q) {
	if (side_points[scheme] == 6) grad_to_points(lo, hi, i, s, o, q);
	else grad_to_eight(side_cells[scheme], lo, hi, i, s, o, q);
}
INLINE void filter_axis(const int scheme, const vec *i, const int s, vec *o, const int q) {
	if (side_points[scheme] == 6) taps_to_points(i, s, o, q);
	else taps_to_eight(side_taps[scheme], i, s, o, q);
}
INLINE void taps_axis(const int scheme, const vec *i, const int s, vec *o, const int q) {
	if (side_points[scheme] == 6) points_to_taps(i, s, o, q);
	else eight_to_taps(side_taps[scheme], i, s, o, q);
}

// Storage of transformed values: as float32; or, for products of bfloat16, in pairs,
// of which a product reads both at once: adjacent, or as the halves of a word that two
// transforms fill one after the other.
enum { AS_WORDS, AS_ROWS, AS_HALVES };

// BY_SCHEME calls f with the depth scheme as a constant; BY_STORAGE with that of
// the fields too, float32 or bfloat16, which only their loads and stores see; BY_FORM
// also with how the transformed values lie. BY_SIX and SIX_BY_STORAGE leave out the schemes of eight points, which
// products of bfloat16 and masked filters never have.
#define SIX_POINTS(f, ...)                              \
	case DEPTH_FLAT: f(DEPTH_FLAT, __VA_ARGS__); break; \
	case DEPTH_PAIR: f(DEPTH_PAIR, __VA_ARGS__); break; \
	case DEPTH_DEEP: f(DEPTH_DEEP, __VA_ARGS__); break; \
	case DEPTH_CUBE: f(DEPTH_CUBE, __VA_ARGS__); break;
#define BY_SIX(f, scheme, ...) \
	switch (scheme) { SIX_POINTS(f, __VA_ARGS__) }
#define BY_SCHEME(f, scheme, ...)                       \
	switch (scheme) {                                   \
	SIX_POINTS(f, __VA_ARGS__)                          \
	case FLAT_4_5: f(FLAT_4_5, __VA_ARGS__); break;     \
	case FLAT_5_4: f(FLAT_5_4, __VA_ARGS__); break;     \
	}
#define SIX_BY_STORAGE(f, scheme, b16, ...)     \
	if (b16)                                    \
		BY_SIX(f, scheme, 1, __VA_ARGS__)       \
	else                                        \
		BY_SIX(f, scheme, 0, __VA_ARGS__)
#define BY_STORAGE(f, scheme, b16, ...)         \
	if (b16)                                    \
		BY_SCHEME(f, scheme, 1, __VA_ARGS__)    \
	else                                        \
		BY_SCHEME(f, scheme, 0, __VA_ARGS__)
#if HALVES
#define BY_FORM(f, scheme, b16, form, ...)           \
	if ((form) == AS_ROWS)                           \
		BY_SIX(f, scheme, 1, AS_ROWS, __VA_ARGS__)   \
	else if ((form) == AS_HALVES)                    \
		BY_SIX(f, scheme, 1, AS_HALVES, __VA_ARGS__) \
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
	long tiles, th, tw, td, points; // tiles in all, in height, width, depth; T²·products
	long t, m, r;            // T, M and R
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
	int s = g[W_SCHEME];
	j.t = side_points[s], j.m = side_cells[s], j.r = side_taps[s];
	j.th = (g[W_H] + j.m - 1) / j.m;
	j.tw = (g[W_W] + j.m - 1) / j.m;
	j.td = (g[W_D] + depth_out[s] - 1) / depth_out[s];
	j.tiles = g[W_N] * j.td * j.th * j.tw;
	j.points = j.t * j.t * depth_products[s];
	even &= j.half;
	j.c0 = g[W_C0] + (g[W_C0] & even);
	j.c = j.c0 + g[W_C1] + (g[W_C1] & even);
	j.cs = (j.c0 + (g[W_C1] + 15) / 16 * 16 + 15) / 16 * 16;
	j.s = (g[W_KS] + j.r - 1) / j.r;
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
	a.x = t % j->tw * j->m;
	t /= j->tw;
	a.y = t % j->th * j->m;
	t /= j->th;
	a.z = t % j->td * depth_out[j->g[W_SCHEME]];
	a.n = t / j->td;
	return a;
}

// Offsets of the T×T cells of a source tile, as of cell_at, for part q of the filter;
// −1 is zero. Returns whether all cells are in the source.
static int tile_cells(const wino *j, tile_at a, long q, long *cell) {
	const long *g = j->g;
	int all = 1;
	long col[MOST_POINTS];
	for (int i = 0; i < j->t; i++) {
		long x = a.x - g[W_PADX] + q % j->s * j->r + i;
		if (g[W_WRAP]) x = x < 0 ? x + g[W_SW] : x < g[W_SW] + g[W_PADX] && x >= g[W_SW] ? x - g[W_SW] : x;
		col[i] = x < 0 || x >= g[W_SW] ? -1 : x;
	}
	for (int i = 0; i < j->t; i++) {
		long y = a.y - g[W_PADY] + q / j->s * j->r + i;
		for (int k = 0; k < j->t; k++) {
			long at = y >= 0 && y < g[W_SH] && col[k] >= 0 ? cell_at(g, y, col[k]) : -1;
			cell[i * j->t + k] = at;
			all &= at >= 0;
		}
	}
	return all;
}

// The products' operands out of the transformed levels, at one point.
INLINE void depth_sources(const int scheme, const vec *d, vec *o) {
	if (is_flat(scheme)) {
		o[0] = d[0];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = d[0] + d[36];
		o[1] = d[36];
		o[2] = d[0];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = d[0] - d[72];
		o[1] = d[36] + d[72];
		o[2] = d[72] - d[36];
		o[3] = d[36] - d[108];
	} else {
		to_points(ALL_POINTS, d, 36, o, 1);
	}
}

// source_part transforms one tile of a chunk of the source into v + p·ps, at the rows lo ≤ i < hi of the T×T points.
INLINE void source_part(const int scheme, const int b16, const int form, const int lo, const int hi, const wino *j, tile_at a, const long *cell, int all, chunk c, void *v, long ps, int odd) {
	const long *g = j->g, blocks = (g[c.part ? W_C1 : W_C0] + 15) / 16;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	const void *x = c.part ? j->x1 : j->x0, *halo = c.part ? j->f1 : j->f0;
	const int ni = depth_in[scheme], np = depth_products[scheme], t = side_points[scheme], tt = t * t, end = MIN(hi, t);
	for (long cb = 0; cb < (c.n + 15) / 16; cb++) {
		const long nth = (a.n * blocks + c.lo / 16 + cb) * g[W_SD];
		const void *block = at(x, nth * plane, b16);
		for (int l = 0; l < 16; l += VL) {
			vec d[LEVEL_POINTS], h[MOST_POINTS * MOST_POINTS];
			for (int z = 0; z < ni; z++) {
				long level = scheme == DEPTH_DEEP || scheme == DEPTH_CUBE ? a.z - g[W_PADZ] + z : a.z + z;
				if (level < 0 || level >= g[W_SD]) {
					for (int k = t * lo; k < t * end; k++) d[z * tt + k] = (vec){};
					continue;
				}
				const void *p = at(block, level * plane + l, b16), *f = edge ? at(halo, (nth + level) * edge + l, b16) : p;
				for (int k = 0; k < t; k++) {
					vec in[MOST_POINTS];
					if (all)
						UNROLL for (int i = 0; i < t; i++) in[i] = get_vec(p, cell[t * i + k], b16);
					else
						UNROLL for (int i = 0; i < t; i++) {
							long c = cell[t * i + k];
							in[i] = c >= 0 ? get_vec(p, c, b16) : c < -1 ? get_vec(f, -2 - c, b16) : (vec){};
						}
					source_axis(scheme, lo, end, in, 1, h + k, t);
				}
				for (int i = lo; i < end; i++) source_axis(scheme, ALL_POINTS, h + t * i, 1, d + z * tt + t * i, 1);
			}
			for (int k = t * lo; k < t * end; k++) {
				vec o[MOST_PRODUCTS];
				depth_sources(scheme, d + k, o);
				UNROLL for (int q = 0; q < np; q++) put_point(v, cb * 16 + l + (q * tt + k) * ps, o[q], form, odd);
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
		for (int i = 0; i < j->t; i++)
			for (int k = j->t - j->m; k < j->t; k++)
				if (cell[j->t * i + k] >= 0) __builtin_prefetch(at(p, cell[j->t * i + k] + j->m * 16, j->x16));
	}
}

// source_points transforms chunks i… before end of a tile to v + p·ps, at rows of points. Each store
// writes whole vectors: what runs over the end of a row is overwritten by the
// next one.
INLINE void source_points(const int lo, const int hi, const wino *j, long t, long i, long end, void *v, long ps, int form) {
	tile_at a = tile_of(j, t);
	long cell[MOST_OFFSETS];
	int all[9];
	for (long q = 0; q < j->ss; q++) all[q] = tile_cells(j, a, q, cell + q * j->t * j->t);
	for (; i < end; i++) {
		chunk c = chunk_at(j, i);
		if (j->far && j->ss == 1)
			for (chunk b = c; b.lo < c.lo + c.n; b.lo += 16) ahead(j, a, cell, b);
		for (long q = 0; q < j->ss; q++, v = at(v, c.rows, form == AS_ROWS))
			BY_FORM(source_part, j->g[W_SCHEME], j->x16, form, lo, hi, j, a, cell + q * j->t * j->t, all[q], c, v, ps, t & 1)
	}
}

static void source_tile(const wino *j, long t, long i, long end, void *v, long ps, int form) { source_points(ALL_POINTS, j, t, i, end, v, ps, form); }

// The filters of the products out of the levels of a filter, at one tap: w[kD][9 taps].
INLINE void depth_filters(const int scheme, const vec *w, vec *o) {
	if (is_flat(scheme)) {
		o[0] = w[0];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = w[9];
		o[1] = w[18] - w[9];
		o[2] = w[0] - w[9];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = w[0];
		o[1] = 0.5f * (w[0] + w[9] + w[18]);
		o[2] = 0.5f * (w[0] - w[9] + w[18]);
		o[3] = w[18];
	} else {
		taps_to_points(w, 9, o, 1);
	}
}

// tap_place is the tap of a level of the filter that is tap k of its part q; −1
// if it lies beyond.
INLINE long tap_place(const wino *j, const int r, long q, long level, int k) {
	const long ks = j->g[W_KS], y = q / j->s * r + k / r, x = q % j->s * r + k % r;
	return y < ks && x < ks ? (level * ks + y) * ks + x : -1;
}

// filter_points transforms part q of VL filters of one source channel, given as
// taps at distance ts, to u + p·ps.
INLINE void filter_points(const int scheme, const int form, const wino *j, long q, const float *taps, long ts, float *u, long ps, int odd) {
	const int np = depth_products[scheme], n = side_points[scheme], r = side_taps[scheme], rr = r * r;
	vec w[LEVEL_TAPS], m[PRODUCT_TAPS];
	for (int z = 0; z < (is_flat(scheme) ? 1 : 3); z++) {
		long level = is_flat(scheme) ? j->g[W_KD] / 2 : z; // of three levels over one, the middle
		for (int k = 0; k < rr; k++) {
			long at = tap_place(j, r, q, level, k);
			w[z * rr + k] = at < 0 ? (vec){} : load(taps + at * ts);
		}
	}
	for (int k = 0; k < rr; k++) {
		vec o[MOST_PRODUCTS];
		depth_filters(scheme, w + k, o);
		for (int q = 0; q < np; q++) m[q * rr + k] = o[q];
	}
	ROLLED for (int q = 0; q < np; q++) {
		vec h[MOST_POINTS * MOST_TAPS];
		UNROLL for (int k = 0; k < r; k++) filter_axis(scheme, m + q * rr + k, r, h + k, r);
		ROLLED for (int i = 0; i < n; i++) {
			vec o[MOST_POINTS];
			filter_axis(scheme, h + r * i, 1, o, 1);
			UNROLL for (int k = 0; k < n; k++) put_point(u, (q * n * n + n * i + k) * ps, o[k], form, odd);
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
						BY_SIX(filter_points, j->g[W_SCHEME], AS_HALVES, j, q, from, nb, to, ps, (c + i) & 1)
					else
						BY_SCHEME(filter_points, j->g[W_SCHEME], AS_WORDS, j, q, from, nb, to, ps, 0)
				}
	}
}

// Level z of the result out of the products at p + q·36·ps.
INLINE vec depth_result(const int scheme, const float *p, long ps, int z) {
	if (is_flat(scheme)) return load(p);
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

enum { MOST_SIDE = 9, MOST_WINDOW = MOST_SIDE + MOST_CELLS - 1 }; // largest side of a filter, and of what a tile reads

// plain_cells computes the M×M cells of one level of the result by the sum of the definition,
// for VL channels from k on. The transforms spread a NaN or infinity over the whole tile and
// lose the sign of an infinity; sums as they stand keep them where they belong. Padding is no
// term of the sum.
static __attribute__((noinline, cold)) void plain_cells(const wino *j, tile_at a, int z, long k, vec *o) {
	const long *g = j->g, ks = g[W_KS], t = j->taps, side = ks + j->m - 1;
	long cell[MOST_WINDOW * MOST_WINDOW];
	double sum[MOST_CELLS * MOST_CELLS][VL];
	source_rows(g, a.y, a.x, side, cell);
	memset(sum, 0, sizeof sum);
	for (long c = 0; c < g[W_C0] + g[W_C1]; c++)
		for (long zt = 0; zt < g[W_KD]; zt++) {
			long level = a.z + z - g[W_PADZ] + zt;
			if (level < 0 || level >= g[W_SD]) continue;
			float x[MOST_WINDOW * MOST_WINDOW];
			for (long i = 0; i < side * side; i++) x[i] = cell[i] == -1 ? 0 : source_value(j, a.n, c, level, cell[i]);
			for (long yt = 0; yt < ks; yt++)
				for (long xt = 0; xt < ks; xt++) {
					const long tap = (zt * ks + yt) * ks + xt;
					float f[VL] = {0};
					for (long l = 0; l < MIN(VL, g[W_K] - k); l++)
						f[l] = g[W_FLIP] ? j->w[(c * g[W_WI] + g[W_WLO] + k + l) * t + t - 1 - tap] : j->w[((k + l) * g[W_WI] + g[W_WLO] + c) * t + tap];
					for (int i = 0; i < j->m * j->m; i++) {
						const long at = (i / j->m + yt) * side + i % j->m + xt;
						if (cell[at] == -1) continue;
						for (int l = 0; l < VL; l++) sum[i][l] += (double)x[at] * f[l];
					}
				}
		}
	for (int i = 0; i < j->m * j->m; i++) {
		float r[VL];
		for (int l = 0; l < VL; l++) r[l] = sum[i][l];
		o[i] = first_lanes(load(r), g[W_K] - k);
	}
}

// result_points: products m at distance ps to the result's VL channels; the
// tile's M×M cells of every level. Cells that come out as NaN or infinite are recomputed
// by plain_cells.
INLINE void result_points(const int scheme, const int b16, const wino *j, tile_at a, const float *m, long ps, long k, vec bias) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16;
	const int no = depth_out[scheme], t = side_points[scheme], cells = side_cells[scheme];
	vec d[MOST_OUT][36];
	for (int i = 0; scheme == DEPTH_CUBE && i < 36; i++) {
		vec p[MOST_PRODUCTS];
		UNROLL for (int q = 0; q < MOST_PRODUCTS; q++) p[q] = load(m + (36 * q + i) * ps);
		from_points(p, 1, d[0] + i, 36);
	}
	for (int z = 0; z < no && a.z + z < g[W_D]; z++) {
		vec h[MOST_POINTS * MOST_CELLS], o[MOST_CELLS * MOST_CELLS], all = {};
		for (int c = 0; c < t; c++) {
			vec e[MOST_POINTS];
			UNROLL for (int i = 0; i < t; i++) e[i] = scheme == DEPTH_CUBE ? d[z][t * i + c] : depth_result(scheme, m + (t * i + c) * ps, ps, z);
			result_axis(scheme, e, 1, h + c, t);
		}
		for (int i = 0; i < cells; i++) {
			result_axis(scheme, h + t * i, 1, o + cells * i, 1);
			UNROLL for (int c = 0; c < cells; c++) all += o[cells * i + c];
		}
		if (__builtin_expect(any_nan(all - all), 0)) plain_cells(j, a, z, k, o);
		long at = ((a.n * ((g[W_K] + 15) / 16) + k / 16) * g[W_D] + a.z + z) * plane + k % 16;
		for (int i = 0; i < cells && a.y + i < g[W_H]; i++) {
			long row = at + ((a.y + i) * g[W_W] + a.x) * 16;
			for (int c = 0; c < cells && a.x + c < g[W_W]; c++) {
				vec r = o[cells * i + c] + bias;
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
		for (long i = 0; i < side_cells[g[W_SCHEME]] && a.y + i < g[W_H]; i++)
			for (long c = 0; c < side_cells[g[W_SCHEME]]; c++) __builtin_prefetch(at(field, from + z * plane + ((a.y + i) * g[W_W] + a.x + c) * 16, b16), written);
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
INLINE void depth_results(const int scheme, const vec *d, vec *o) {
	if (is_flat(scheme)) {
		o[0] = d[0];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = d[0] + d[36];
		o[1] = d[0];
		o[2] = d[36];
	} else if (scheme == DEPTH_DEEP) {
		o[0] = d[0];
		o[1] = d[0] + d[36];
		o[2] = d[0] - d[36];
		o[3] = -d[36];
	} else {
		grad_to_points(ALL_POINTS, d, 36, o, 1);
	}
}

// gradient_part transforms one tile of block kb of the result's gradient to v + p·ps, at rows of points.
INLINE void gradient_part(const int scheme, const int b16, const int form, const int lo, const int hi, const wino *j, tile_at a, long kb, float *v, long ps, int odd) {
	const long *g = j->g, plane = g[W_H] * g[W_W] * 16, blocks = (g[W_K] + 15) / 16;
	const int no = depth_out[scheme], np = depth_products[scheme], t = side_points[scheme], tt = t * t, cells = side_cells[scheme], end = MIN(hi, t);
	long h = MIN(cells, g[W_H] - a.y), w = MIN(cells, g[W_W] - a.x);
	const void *from = at(j->dy, ((a.n * blocks + kb) * g[W_D] + a.z) * plane + (a.y * g[W_W] + a.x) * 16, b16);
	for (int l = 0; l < 16; l += VL) {
		vec d[LEVEL_POINTS], r[MOST_POINTS * MOST_CELLS];
		for (int z = 0; z < no; z++) {
			if (a.z + z >= g[W_D]) {
				for (int k = t * lo; k < t * end; k++) d[z * tt + k] = (vec){};
				continue;
			}
			for (int k = 0; k < cells; k++) {
				vec in[MOST_CELLS];
				UNROLL for (int i = 0; i < cells; i++)
					in[i] = i < h && k < w ? get_vec(from, z * plane + (i * g[W_W] + k) * 16 + l, b16) : (vec){};
				gradient_axis(scheme, lo, end, in, 1, r + k, cells);
			}
			for (int i = lo; i < end; i++) gradient_axis(scheme, ALL_POINTS, r + cells * i, 1, d + z * tt + t * i, 1);
		}
		for (int k = t * lo; k < t * end; k++) {
			vec o[MOST_PRODUCTS];
			depth_results(scheme, d + k, o);
			UNROLL for (int q = 0; q < np; q++) put_point(v, l + (q * tt + k) * ps, o[q], form, odd);
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
	const int np = depth_products[scheme], n = side_points[scheme], r = side_taps[scheme], rr = r * r;
	vec m[PRODUCT_TAPS];
	ROLLED for (int q = 0; q < np; q++) {
		vec h[MOST_TAPS * MOST_POINTS];
		ROLLED for (int k = 0; k < n; k++) {
			vec in[MOST_POINTS];
			UNROLL for (int i = 0; i < n; i++) in[i] = load(u + (q * n * n + n * i + k) * ps);
			taps_axis(scheme, in, 1, h + k, n);
		}
		UNROLL for (int i = 0; i < r; i++) taps_axis(scheme, h + n * i, 1, m + q * rr + r * i, 1);
	}
	for (int k = 0; k < rr; k++) {
		long at = tap_place(j, r, q0, 0, k);
		if (at < 0) continue;
		float *to = taps + at * ts;
		const vec *p = m + k;
		if (is_flat(scheme)) {
			for (long z = 0; z < kd; z++) store(to + z * level, z == kd / 2 ? p[0] : (vec){});
		} else if (scheme == DEPTH_PAIR) {
			store(to, p[18]);
			store(to + level, p[0] - p[9] - p[18]);
			store(to + 2 * level, p[9]);
		} else if (scheme == DEPTH_CUBE) {
			vec t[3];
			points_to_taps(p, 9, t, 1);
			for (int z = 0; z < 3; z++) store(to + z * level, t[z]);
		} else {
			vec s = p[9] + p[18];
			store(to, add_mul(p[0], 0.5f, s));
			store(to + level, 0.5f * (p[9] - p[18]));
			store(to + 2 * level, add_mul(p[27], 0.5f, s));
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
	const long lo = j.g[W_ROWS] * i, hi = MIN(lo + j.g[W_ROWS], j.t);
	for (j.first = 0; j.first < j.tiles; j.first += j.block) {
		j.count = MIN(j.block, j.tiles - j.first);
		for (long line = 0; line < lines_of(&j, j.count); line++) both_points(lo, hi, &j, line);
		for (long q = 0; q < j.points; q += j.t * j.t)
			for (long p = j.t * lo; p < j.t * hi; p++) wino_point_item(&j, q + p);
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
		if (g[W_ROWS]) ens_parallel(p, wino_rows_item, &j, (j.t + g[W_ROWS] - 1) / g[W_ROWS]);
		for (j.first = 0; !g[W_ROWS] && j.first < j.tiles; j.first += j.block) {
			j.count = MIN(j.block, j.tiles - j.first);
			ens_parallel(p, wino_both_item, &j, lines_of(&j, j.count));
			ens_parallel(p, whole ? wino_chunk_item : wino_point_item, &j, whole ? blocks * chunks : j.points);
		}
		if (!whole) ens_parallel(p, wino_taps_item, &j, blocks * j.step);
	}
}
