// Convolutions of 3×3 and 3×3×3 on int8 values, by Winograd's products as in
// wino.inc.h. A source is stored as value/scale of its channel + zero point, in 0…255
// (its code); a filter is float32. All steps between are integers:
//
//	codes − zero, times 4 → points in int16 (fractions of points rounded) → times a factor
//	of the point, rounded, in −128…127 → sums of products in int32
//
// so its bits are the same for all instruction sets. Filters are transformed in float32 with
// the scales of the source in them, and rounded to int8 by a scale for each point and result
// channel. The sums take these scales back and are transformed in float32; results are
// stored as that or as codes.
//
// Products take four channels at a time; they multiply an unsigned byte by a signed one, so
// transformed sources have 128 added, which the sums begin without.
//
// Blocks of 16 result × 16 source channels that are zero in a filter have codes of zero at every
// point. With a list of the kept blocks (winosparse.inc.h) the others are neither transformed nor
// multiplied, and source blocks that no kept block reads are not transformed. Sums are of whole
// numbers, so the bits are the same.
//
// int16 has room: of codes 0…255 a point is at most 16.01·255·4, of −128…127 27.9·128·4, and
// two levels that are added twice that: 32658, and roundings of less than 20.
//
// Sources: Andri et al. 2022, arXiv:2209.12982 (a scale for each point); Jacob et al. 2018,
// arXiv:1712.05877.

#pragma GCC diagnostic ignored "-Wpsabi" // vectors that this instruction set has not stay inside of functions
typedef int16_t svec __attribute__((vector_size(32), aligned(2), may_alias)); // a cell
typedef uint8_t bvec __attribute__((vector_size(16), aligned(1), may_alias));
typedef int8_t cvec __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t lvec __attribute__((vector_size(VL), aligned(1), may_alias)); // of VL lanes
typedef int wide __attribute__((vector_size(64), may_alias));

// mulhr is a·f/2^15, rounded to nearest, ties up.
INLINE svec mulhr(svec a, int f) {
#if defined(__AVX2__)
	return (svec)_mm256_mulhrs_epi16((__m256i)a, _mm256_set1_epi16((short)f));
#else
	wide w = __builtin_convertvector(a, wide) * f + 0x4000;
	return __builtin_convertvector(w >> 15, svec);
#endif
}

// put_code stores x, cut off at −128 and 127, with 128 added.
INLINE void put_code(uint8_t *p, svec x) {
#if VL == 16 && defined(__AVX512BW__)
	*(bvec *)p = (bvec)_mm256_cvtsepi16_epi8((__m256i)x) ^ 0x80;
#elif defined(__AVX2__)
	__m256i y = (__m256i)x;
	*(bvec *)p = (bvec)_mm_packs_epi16(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)) ^ 0x80;
#else
	for (int i = 0; i < 16; i++) p[i] = MAX(-128, MIN(127, x[i])) + 128;
#endif
}

INLINE svec get_code(const uint8_t *p, svec zero) {
#if defined(__AVX2__)
	return ((svec)_mm256_cvtepu8_epi16((__m128i)*(const bvec *)p) - zero) << 2;
#else
	return (__builtin_convertvector(*(const bvec *)p, svec) - zero) << 2;
#endif
}

// Six values against six points, as to_points: 9/4 = 2 + 1/4, 25/64, 5/8, 3/2 = 1 + 1/2,
// 225/256 and 9/4 + 25/64 = 2 + 41/64.
enum { Q_QUARTER = 8192, Q_AA = 12800, Q_A = 20480, Q_HALF = 16384, Q_AABB = 28800, Q_SUM = 20992 };
INLINE void int8_to_points(const svec *i, const int s, svec *o, const int q) {
	svec b1 = i[s] + i[s] + mulhr(i[s], Q_QUARTER), b2 = i[2 * s] + i[2 * s] + mulhr(i[2 * s], Q_QUARTER);
	svec a1 = mulhr(i[s], Q_AA), a2 = mulhr(i[2 * s], Q_AA);
	svec ea = i[4 * s] - b2, oa = mulhr(i[3 * s] - b1, Q_A), eb = i[4 * s] - a2, ob = i[3 * s] - a1;
	ob += mulhr(ob, Q_HALF);
	o[0] = mulhr(i[0], Q_AABB) + ea - a2;
	o[q] = ea + oa;
	o[2 * q] = ea - oa;
	o[3 * q] = eb + ob;
	o[4 * q] = eb - ob;
	o[5 * q] = mulhr(i[s], Q_AABB) - i[3 * s] - i[3 * s] - mulhr(i[3 * s], Q_SUM) + i[5 * s];
}

INLINE void depth_int8(const int scheme, const svec (*d)[36], int k, svec *o) {
	if (scheme == DEPTH_FLAT) {
		o[0] = d[0][k];
	} else if (scheme == DEPTH_PAIR) {
		o[0] = d[0][k] + d[1][k];
		o[1] = d[1][k];
		o[2] = d[0][k];
	} else {
		o[0] = d[0][k] - d[2][k];
		o[1] = d[1][k] + d[2][k];
		o[2] = d[2][k] - d[1][k];
		o[3] = d[1][k] - d[3][k];
	}
}

typedef struct {
	wino w; // first: geometry
	const ens_quantisation *q;
	long blocks[2], row;     // of the parts of the source; bytes of a transformed tile
	int sparse;              // only the kept blocks of the filter are multiplied
	kept_blocks k;           // without sparse only read, the number of source blocks
	long tiles, vs, ms;      // of a block; distances of points: of transformed tiles in bytes, of sums
	long filters, sb;        // bytes of all filters, words of the scales of a column block
	uint8_t *own;
	long ownlen;
	int vnni;
} int8_job;

#define BY_DEPTH(f, scheme, ...)                        \
	switch (scheme) {                                   \
	case DEPTH_FLAT: f(DEPTH_FLAT, __VA_ARGS__); break; \
	case DEPTH_PAIR: f(DEPTH_PAIR, __VA_ARGS__); break; \
	default: f(DEPTH_DEEP, __VA_ARGS__);                \
	}

// int8_source transforms one tile of block cb of a part of the source to v + p·vs.
INLINE void int8_source(const int scheme, const int8_job *s, tile_at a, const long *cell, int all, int part, long cb, uint8_t *v) {
	const long *g = s->w.g, plane = g[W_SH] * g[W_SW] * 16;
	const uint8_t *block = (const uint8_t *)(part ? s->w.x1 : s->w.x0) + (a.n * s->blocks[part] + cb) * g[W_SD] * plane;
	const svec zero = (svec){} + (int16_t)s->q->zero[part];
	const int16_t *factor = s->q->factors[part];
	const int ni = depth_in[scheme], np = depth_products[scheme];
	svec d[4][36], h[36];
	for (int z = 0; z < ni; z++) {
		long level = scheme == DEPTH_DEEP ? a.z - g[W_PADZ] + z : a.z + z;
		if (level < 0 || level >= g[W_SD]) {
			for (int k = 0; k < 36; k++) d[z][k] = (svec){};
			continue;
		}
		const uint8_t *p = block + level * plane;
		for (int k = 0; k < 6; k++) {
			svec in[6];
			if (all)
				UNROLL for (int i = 0; i < 6; i++) in[i] = get_code(p + cell[6 * i + k], zero);
			else
				UNROLL for (int i = 0; i < 6; i++) in[i] = cell[6 * i + k] >= 0 ? get_code(p + cell[6 * i + k], zero) : (svec){};
			int8_to_points(in, 1, h + k, 6);
		}
		for (int i = 0; i < 6; i++) int8_to_points(h + 6 * i, 1, d[z] + 6 * i, 1);
	}
	for (int k = 0; k < 36; k++) {
		svec o[4];
		depth_int8(scheme, (const svec(*)[36])d, k, o);
		UNROLL for (int q = 0; q < np; q++) put_code(v + (q * 36 + k) * s->vs, mulhr(o[q], factor[q * 36 + k]));
	}
}

static void int8_tile(const int8_job *s, long t, uint8_t *v) {
	tile_at a = tile_of(&s->w, t);
	long cell[36];
	int all = tile_cells(&s->w, a, 0, cell);
	for (long i = 0; i < s->k.read; i++, v += 16) {
		const long block = s->sparse ? s->k.sources[i] : i;
		const int part = block >= s->blocks[0];
		BY_DEPTH(int8_source, s->w.g[W_SCHEME], s, a, cell, all, part, block - (part ? s->blocks[0] : 0), v)
	}
}

// --- products ------------------------------------------------------------------

// C[r][32] = from[32] + sum over k, q of A[r][4k+q]·B[k][32][q]; A unsigned.
#define INT8_ARGS long kc, const uint8_t *a, long as, const int8_t *b, const int *from, int *c
typedef void (*int8_fn)(INT8_ARGS);

#if VL == 16 && defined(__AVX512BW__)
#define VNNI __attribute__((target("avx512vnni")))
static inline __attribute__((always_inline)) VNNI void mm_int8_of(const int mr, INT8_ARGS) {
	__m512i acc[MR][2];
	const uint8_t *base[(MR + 2) / 3];
	UNROLL for (int r = 0; r < mr; r++) {
		if (r % 3 == 0) base[r / 3] = a + r * as;
		UNROLL for (int j = 0; j < 2; j++) acc[r][j] = _mm512_loadu_si512(from + j * 16);
	}
	for (long k = 0; k < kc; k++, b += 128) {
		__m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 64);
		UNROLL for (int r = 0; r < mr; r++) {
			int word;
			memcpy(&word, base[r / 3] + r % 3 * as + 4 * k, 4);
			__m512i s = _mm512_set1_epi32(word);
			acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], s, b0);
			acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], s, b1);
		}
	}
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < 2; j++) _mm512_storeu_si512(c + r * NB + j * 16, acc[r][j]);
}
#define INT8_DEFINE(way, m) \
	static __attribute__((noinline)) VNNI void way##_##m(INT8_ARGS) { way##_of(m, kc, a, as, b, from, c); }
#define INT8_ENTRY(way, m) way##_##m,
MM_EACH(INT8_DEFINE, mm_int8)
static const int8_fn mm_int8_fns[MR] = {MM_EACH(INT8_ENTRY, mm_int8)};
#endif

// C[r][16] = from[16] + sum over kept blocks i and their 16 channels of A[r][block of[i]]·B[i]:
// A in rows as apart, with the blocks that are read behind each other; B as [i][channels/4][16][4].
// Rows of C are NB apart.
#define KEPT8_ARGS long n, const long *of, const uint8_t *a, long as, const int8_t *b, const int *from, int *c
typedef void (*kept8_fn)(KEPT8_ARGS);

#if VL == 16 && defined(__AVX512BW__)
static inline __attribute__((always_inline)) VNNI void kept_int8_of(const int mr, KEPT8_ARGS) {
	__m512i acc[MR];
	UNROLL for (int r = 0; r < mr; r++) acc[r] = _mm512_loadu_si512(from);
	for (long i = 0; i < n; i++, b += 256) {
		const uint8_t *base[(MR + 2) / 3];
		UNROLL for (int r = 0; r < mr; r += 3) base[r / 3] = a + of[i] * 16 + r * as;
		UNROLL for (int k = 0; k < 4; k++) {
			__m512i v = _mm512_loadu_si512(b + 64 * k);
			UNROLL for (int r = 0; r < mr; r++) {
				int word;
				memcpy(&word, base[r / 3] + r % 3 * as + 4 * k, 4);
				acc[r] = _mm512_dpbusd_epi32(acc[r], _mm512_set1_epi32(word), v);
			}
		}
	}
	UNROLL for (int r = 0; r < mr; r++) _mm512_storeu_si512(c + r * NB, acc[r]);
}
#define KEPT8_DEFINE(way, m) \
	static __attribute__((noinline)) VNNI void way##_##m(KEPT8_ARGS) { way##_of(m, n, of, a, as, b, from, c); }
MM_EACH(KEPT8_DEFINE, kept_int8)
static const kept8_fn kept_int8_fns[MR] = {MM_EACH(INT8_ENTRY, kept_int8)};
#endif

static void kept_int8(int vnni, long rows, KEPT8_ARGS) {
#if VL == 16 && defined(__AVX512BW__)
	if (vnni) {
		long tiles = (rows + MR - 1) / MR;
		for (long i = 0, r = 0; i < tiles; i++) {
			long m = (rows - r + tiles - i - 1) / (tiles - i);
			kept_int8_fns[m - 1](n, of, a + r * as, as, b, from, c + r * NB);
			r += m;
		}
		return;
	}
#endif
	for (long r = 0; r < rows; r++) {
		int sum[16];
		memcpy(sum, from, sizeof sum);
		for (long i = 0; i < n; i++)
			for (int k = 0; k < 16; k++) {
				int s = a[r * as + of[i] * 16 + k];
				for (int l = 0; l < 16; l++) sum[l] += s * b[i * 256 + k / 4 * 64 + 4 * l + k % 4];
			}
		memcpy(c + r * NB, sum, sizeof sum);
	}
}

static void mm_int8(int vnni, long rows, INT8_ARGS) {
#if VL == 16 && defined(__AVX512BW__)
	if (vnni) {
		long tiles = (rows + MR - 1) / MR;
		for (long i = 0, r = 0; i < tiles; i++) {
			long m = (rows - r + tiles - i - 1) / (tiles - i);
			mm_int8_fns[m - 1](kc, a + r * as, as, b, from, c + r * NB);
			r += m;
		}
		return;
	}
#endif
	for (long r = 0; r < rows; r++) {
		int sum[NB];
		memcpy(sum, from, sizeof sum);
		for (long k = 0; k < kc; k++)
			for (int q = 0; q < 4; q++) {
				int s = a[r * as + 4 * k + q];
				for (int i = 0; i < NB; i++) sum[i] += s * b[k * 4 * NB + 4 * i + q];
			}
		memcpy(c + r * NB, sum, sizeof sum);
	}
}

// --- filters -------------------------------------------------------------------

// Of a column block: filters as [point][channels/4][32][4], behind those of all blocks what
// the sums begin with and their scales, both [point][32]. Kept filters are, for each of the
// two halves of a column block, as [point][kept block][channels/4][16][4].
INLINE int8_t *int8_filters(const int8_job *s, long b) {
	const long points = s->w.points;
	return (int8_t *)s->w.shared + (s->sparse ? s->k.first[MIN(2 * b, s->k.columns)] * points * 256 : b * points * s->row * NB);
}
INLINE int *int8_from(const int8_job *s, long b) { return (int *)s->w.shared + s->filters / 4 + b * 2 * s->sb; }

// int8_reaches is the number of kept blocks of 16 result channels.
INLINE long int8_reaches(const int8_job *s, long block) { return s->k.first[block + 1] - s->k.first[block]; }

// int8_place is where the codes of point 0 of four source channels, from a lane on, and of 16
// result channels, from column l of column block b on, stand; step is the distance of points. It
// is NULL for a block that is not kept.
static int8_t *int8_place(const int8_job *s, long b, long lane, long l, long *step) {
	if (!s->sparse) {
		*step = s->row * NB;
		return int8_filters(s, b) + lane * NB + 4 * l;
	}
	const long block = 2 * b + l / 16, first = s->k.first[block], n = int8_reaches(s, block);
	*step = n * 256;
	for (long i = 0; i < n; i++)
		if (s->k.sources[s->k.of[first + i]] == lane / 16)
			return (int8_t *)s->w.shared + (first * s->w.points + i) * 256 + lane % 16 * 16 + l % 16 * 4;
	return 0;
}
INLINE float *int8_scales(const int8_job *s, long b) { return (float *)int8_from(s, b) + s->sb; }

INLINE vec magnitude(vec x) { return keep(x, x > 0) - keep(x, x < 0); }

// nearest rounds to whole numbers, ties to even, values of less than 2^22.
INLINE ivec nearest(vec x) {
#if VL == 16 && defined(__AVX512BW__)
	return (ivec)_mm512_cvtps_epi32((__m512)x);
#elif VL == 8 && defined(__AVX2__)
	return (ivec)_mm256_cvtps_epi32((__m256)x);
#else
	ivec r;
	for (int i = 0; i < VL; i++) r[i] = (int)rintf(x[i]);
	return r;
#endif
}

// int8_filter transforms the filters of a column block twice: for the largest value of
// each point and result channel, and to round them, four source channels at a time, whose
// codes are the bytes of a word.
static void int8_filter_item(void *arg, long b) {
	const int8_job *s = arg;
	const wino *j = &s->w;
	const long *g = j->g, points = j->points, nb = block_cols(g, b);
	int *from = int8_from(s, b);
	float *scale = int8_scales(s, b), taps[4 * 27 * NB], out[NB];
	float points_of[4][36 * MOST_PRODUCTS * VL], inverse[36 * 4 * NB];
	memset(int8_filters(s, b), 0, int8_filters(s, b + 1) - int8_filters(s, b));
	memset(from, 0, s->sb * sizeof *from);
	memset(scale, 0, s->sb * sizeof *scale);
	for (int i = 0; i < NB; i++) out[i] = s->q->out && b * NB + i < g[W_K] ? s->q->out[b * NB + i] : 1;
	for (int pass = 0; pass < 2; pass++) {
		for (int part = 0; part < 2; part++) {
			const long first = part ? g[W_C0] : 0, channels = part ? g[W_C1] : g[W_C0];
			for (long c = 0; c < channels; c += 4) {
				const long n = MIN(4, channels - c), lane = part * s->blocks[0] * 16 + c;
				const float *channel = s->q->channels + first + c;
				long step;
				if (!int8_place(s, b, lane, 0, &step) && (nb == 16 || !int8_place(s, b, lane, 16, &step))) continue;
				for (long q = 0; q < n; q++) gather_taps(j, first + c + q, 1, b * NB, nb, taps + q * 27 * NB);
				for (long l = 0; l < nb; l += VL) {
					int8_t *u = int8_place(s, b, lane, l, &step);
					if (!u) continue;
					for (long q = 0; q < n; q++)
						BY_DEPTH(filter_points, g[W_SCHEME], AS_WORDS, j, 0, taps + q * 27 * NB + l, nb, points_of[q], VL, 0)
					for (long p = 0; p < points; p++) {
						const float unit = s->q->units[part][p];
						if (pass == 0) {
							vec m = load(scale + p * NB + l);
							for (long q = 0; q < n; q++) {
								vec y = magnitude(load(points_of[q] + p * VL) * (channel[q] * unit));
								m = keep(y, y > m) + keep(m, m >= y);
							}
							store(scale + p * NB + l, m);
							continue;
						}
						uvec word = {};
						ivec sum = *(const ivec *)(from + p * NB + l);
						for (long q = 0; q < n; q++) {
							ivec r = nearest(load(points_of[q] + p * VL) * (channel[q] * unit) * load(inverse + p * NB + l));
							word |= ((uvec)r & 255) << 8 * q;
							sum -= 128 * r;
						}
						*(uvec *)(u + p * step) = word;
						*(ivec *)(from + p * NB + l) = sum;
					}
				}
			}
		}
		if (pass == 0)
			for (long i = 0; i < points * NB; i++) inverse[i] = scale[i] > 0 ? 127 / scale[i] : 0;
	}
	for (long i = 0; i < points * NB; i++) scale[i] *= out[i % NB] / 127;
}

// --- results -------------------------------------------------------------------

INLINE vec sum_of(const int *m, const float *scale, long p, long ms) {
	return __builtin_convertvector(*(const ivec *)(m + p * ms), vec) * load(scale + p * NB);
}

INLINE vec depth_sum(const int scheme, const int *m, const float *scale, long k, long ms, int z) {
	vec p = sum_of(m, scale, k, ms);
	if (scheme == DEPTH_FLAT) return p;
	if (scheme == DEPTH_PAIR) return p + sum_of(m, scale, k + 36 * (z + 1), ms);
	vec a = sum_of(m, scale, k + 36, ms), b = sum_of(m, scale, k + 72, ms);
	return z == 0 ? p + a + b : a - b - sum_of(m, scale, k + 108, ms);
}

// put_result stores codes: rounded to nearest, ties to even, and cut off.
INLINE void put_result(uint8_t *p, vec x) {
#if VL == 16 && defined(__AVX512BW__)
	*(lvec *)p = (lvec)_mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_max_ps((__m512)x, _mm512_setzero_ps())));
#else
	x = keep(x, x > 0);
	x = keep(x, x < 255) + keep((vec){} + 255, x >= 255);
	x += 8388608.0f;
	*(lvec *)p = __builtin_convertvector((uvec)x & 255, lvec);
#endif
}

// How results are stored: as float32, bfloat16 or codes, and with ReLU.
typedef struct { void *y; int codes, b16, relu; } int8_sink;
INLINE int8_sink sink_of(const wino *j, const ens_quantisation *q) { return (int8_sink){j->y, q->out != 0, j->y16, j->g[W_RELU] != 0}; }

INLINE void int8_put(int8_sink to, long at, vec r) {
	if (to.relu) r = relu_of(r);
	if (to.codes)
		put_result((uint8_t *)to.y + at, r);
	else
		put_vec(to.y, at, r, to.b16);
}

INLINE void int8_result(const int scheme, const int8_job *s, tile_at a, const int *m, const float *scale, long k, vec bias) {
	const long *g = s->w.g, plane = g[W_H] * g[W_W] * 16;
	const int8_sink to = sink_of(&s->w, s->q);
	for (int z = 0; z < depth_out[scheme] && a.z + z < g[W_D]; z++) {
		vec h[24], o[4];
		for (int c = 0; c < 6; c++) {
			vec e[6];
			UNROLL for (int i = 0; i < 6; i++) e[i] = depth_sum(scheme, m, scale, 6 * i + c, s->ms, z);
			from_points(e, 1, h + c, 6);
		}
		long at = ((a.n * ((g[W_K] + 15) / 16) + k / 16) * g[W_D] + a.z + z) * plane + k % 16;
		for (int i = 0; i < 4 && a.y + i < g[W_H]; i++) {
			from_points(h + 6 * i, 1, o, 1);
			long row = at + ((a.y + i) * g[W_W] + a.x) * 16;
			for (int c = 0; c < 4 && a.x + c < g[W_W]; c++) int8_put(to, row + c * 16, o[c] + bias);
		}
	}
}

// int8_unreached are the results of channels that no kept block reaches: sums of zero.
static void int8_unreached(const int8_job *s, tile_at a, long k, vec bias) {
	const long *g = s->w.g, plane = g[W_H] * g[W_W] * 16;
	for (long z = 0; z < depth_out[g[W_SCHEME]] && a.z + z < g[W_D]; z++)
		for (int i = 0; i < 4 && a.y + i < g[W_H]; i++)
			for (int c = 0; c < 4 && a.x + c < g[W_W]; c++) {
				long block = (a.n * ((g[W_K] + 15) / 16) + k / 16) * g[W_D] + a.z + z;
				int8_put(sink_of(&s->w, s->q), block * plane + ((a.y + i) * g[W_W] + a.x + c) * 16 + k % 16, (vec){} + bias);
			}
}

// int8_products multiplies n transformed tiles v by the filters of column block b.
static void int8_products(const int8_job *s, long b, long n, const uint8_t *v, int *m) {
	const long points = s->w.points;
	const int *from = int8_from(s, b);
	for (long p = 0; p < points; p++, v += s->vs, from += NB, m += s->ms) {
		if (!s->sparse) {
			mm_int8(s->vnni, n, s->row / 4, v, s->row, int8_filters(s, b) + p * s->row * NB, from, m);
			continue;
		}
		for (long l = 0; l < block_cols(s->w.g, b); l += 16) {
			const long block = 2 * b + l / 16, first = s->k.first[block], kept = int8_reaches(s, block);
			const int8_t *u = (const int8_t *)s->w.shared + (first * points + p * kept) * 256;
			if (kept > 0) kept_int8(s->vnni, n, kept, s->k.of + first, v, s->row, u, from + l, m + l);
		}
	}
}

static void int8_tiles_item(void *arg, long i) {
	const int8_job *s = arg;
	const wino *j = &s->w;
	const long *g = j->g, first = i * s->tiles, n = MIN(s->tiles, j->tiles - first);
	uint8_t *v = s->own + ens_thread() * s->ownlen;
	int *m = (int *)(v + j->points * s->vs);
	for (long t = 0; t < n; t++) int8_tile(s, first + t, v + t * s->row);
	for (long b = 0; b * NB < g[W_K]; b++) {
		const float *scale = int8_scales(s, b);
		float bias[NB] = {0};
		for (long k = 0; j->bias && k < MIN(NB, g[W_K] - b * NB); k++) bias[k] = j->bias[b * NB + k] * (s->q->out ? s->q->out[b * NB + k] : 1);
		int8_products(s, b, n, v, m);
		for (long t = 0; t < n; t++) {
			tile_at a = tile_of(j, first + t);
			for (long l = 0; l < block_cols(g, b); l += VL) {
				if (s->sparse && int8_reaches(s, 2 * b + l / 16) == 0) {
					int8_unreached(s, a, b * NB + l, load(bias + l));
					continue;
				}
				BY_DEPTH(int8_result, g[W_SCHEME], s, a, m + t * NB + l, scale + l, b * NB + l, load(bias + l))
			}
		}
	}
}

// kept lists the blocks to multiply (kept_of); NULL for all.
static void k_wino_int8(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q, const long *kept, int vnni) {
	int8_job s = {.w = wino_job(g, 0), .q = q, .vnni = vnni};
	wino *j = &s.w;
	j->y16 = y16, j->x0 = x0, j->x1 = x1, j->w = w, j->bias = bias, j->y = y, j->shared = scratch;
	s.blocks[0] = (g[W_C0] + 15) / 16, s.blocks[1] = (g[W_C1] + 15) / 16;
	s.sparse = kept != 0;
	if (s.sparse) s.k = kept_of(kept);
	else s.k.read = s.blocks[0] + s.blocks[1];
	s.row = 16 * s.k.read;
	s.tiles = g[W_TILES];
	s.vs = s.tiles * s.row + 64, s.ms = s.tiles * NB + 16;
	const long blocks = (g[W_K] + NB - 1) / NB;
	s.filters = j->points * (s.sparse ? s.k.kept * 256 : blocks * s.row * NB), s.sb = j->points * NB;
	s.own = (uint8_t *)scratch + s.filters + blocks * 8 * s.sb;
	s.ownlen = j->points * (s.vs + 4 * s.ms);
	ens_parallel(p, int8_filter_item, &s, blocks);
	ens_parallel(p, int8_tiles_item, &s, (j->tiles + s.tiles - 1) / s.tiles);
}

// --- codes of fields -----------------------------------------------------------

typedef struct {
	uint8_t *y;
	const void *x;
	const float *scale; // 1/scale of each channel, 0 beyond the last
	long blocks, s, c, zero; // c: channels of a plain field
	int b16;
	const long *in, *f;
	int wrap;
} int8_field;

static void quantise_item(void *arg, long i) {
	const int8_field *j = arg;
	const long pieces = (j->s + TURN - 1) / TURN, b = i / pieces, lo = i % pieces * TURN, cells = MIN(TURN, j->s - lo), first = (b * j->s + lo) * 16;
	const float *scale = j->scale + b % j->blocks * 16, zero = j->zero;
	uint8_t *y = j->y + first;
	const void *x = at(j->x, first, j->b16);
	const int b16 = j->b16;
	for (long c = 0; c < cells; c++)
		for (long l = 0; l < 16; l += VL) put_result(y + c * 16 + l, get_vec(x, c * 16 + l, b16) * load(scale + l) + zero);
}

// quantise_plain_item turns a plain field too, as block_item does.
static void quantise_plain_item(void *arg, long i) {
	const int8_field *j = arg;
	const long pieces = (j->s + TURN - 1) / TURN, b = i / pieces, lo = i % pieces * TURN, cells = MIN(TURN, j->s - lo), s = j->s;
	const long block = b % j->blocks, lanes = MIN(16, j->c - block * 16);
	const float *scale = j->scale + block * 16, zero = j->zero;
	const float *x = (const float *)j->x + (b / j->blocks * j->c + block * 16) * s + lo;
	uint8_t *y = j->y + (b * s + lo) * 16;
	long c = 0;
	for (; c + VL <= cells; c += VL)
		for (long l = 0; l < 16; l += VL) {
			vec r[VL];
			UNROLL for (long k = 0; k < VL; k++) r[k] = l + k < lanes ? load(x + (l + k) * s + c) : (vec){};
			transpose(r);
			UNROLL for (long k = 0; k < VL; k++) put_result(y + (c + k) * 16 + l, r[k] * load(scale + l) + zero);
		}
	for (; c < cells; c++)
		for (long l = 0; l < 16; l += VL) {
			float r[VL];
			for (long k = 0; k < VL; k++) r[k] = l + k < lanes ? x[(l + k) * s + c] : 0;
			put_result(y + c * 16 + l, load(r) * load(scale + l) + zero);
		}
}

// y = x·scale + zero as codes, of fields of blocks; x may be plain, with that many channels of float32.
static void k_quantise(ens_pool *p, int b16, uint8_t *y, const void *x, const float *scale, long zero, long n, long blocks, long s, long plain) {
	int8_field j = {.y = y, .x = x, .scale = scale, .blocks = blocks, .s = s, .c = plain, .zero = zero, .b16 = b16};
	ens_parallel(p, plain ? quantise_plain_item : quantise_item, &j, n * blocks * ((s + TURN - 1) / TURN));
}

static void int8_max_pool_item(void *arg, long i) {
	const int8_field *j = arg;
	const long *in = j->in, *k = j->f, oh = in[1] / k[1], ow = in[2] / k[2], od = in[0] / k[0];
	const long h = i % oh, d = i / oh % od, plane = i / oh / od;
	const uint8_t *x = (const uint8_t *)j->x + ((plane * in[0] + d * k[0]) * in[1] + h * k[1]) * in[2] * 16;
	uint8_t *y = j->y + i * ow * 16;
	for (long w = 0; w < ow; w++) {
		bvec m = {0};
		for (long a = 0; a < k[0]; a++)
			for (long b = 0; b < k[1]; b++)
				for (long c = 0; c < k[2]; c++) {
					bvec t = *(const bvec *)(x + ((a * in[1] + b) * in[2] + w * k[2] + c) * 16);
					bvec more = (bvec)(t > m);
					m = (t & more) | (m & ~more);
				}
		*(bvec *)(y + w * 16) = m;
	}
}

static void k_int8_max_pool(ens_pool *p, uint8_t *y, const uint8_t *x, long planes, const long *in, const long *k) {
	int8_field j = {.y = y, .x = x, .in = in, .f = k};
	ens_parallel(p, int8_max_pool_item, &j, planes * (in[0] / k[0]) * (in[1] / k[1]));
}

// A row of y = x twice as long and high, linear between the centres of cells: 1, 3, 3 and 9
// sixteenths of four cells, rounded, ties up.
static void int8_upsample_item(void *arg, long i) {
	const int8_field *j = arg;
	const long *in = j->in, oh = 2 * in[1], H = in[1], W = in[2];
	const long h = i % oh, plane = i / oh, near = h / 2, far = h % 2 ? MIN(near + 1, H - 1) : MAX(near - 1, 0);
	const uint8_t *x = (const uint8_t *)j->x + plane * H * W * 16;
	uint8_t *y = j->y + i * 2 * W * 16;
#define ROWS(c) (3 * __builtin_convertvector(*(const bvec *)(x + (near * W + (c)) * 16), svec) + __builtin_convertvector(*(const bvec *)(x + (far * W + (c)) * 16), svec))
	svec left = ROWS(j->wrap ? W - 1 : 0), here = ROWS(0), first = here;
	for (long w = 0; w < W; w++) {
		svec right = j->wrap ? first : here, three = 3 * here + 8;
		if (w + 1 < W) right = ROWS(w + 1);
		*(bvec *)(y + 2 * w * 16) = __builtin_convertvector((three + left) >> 4, bvec);
		*(bvec *)(y + (2 * w + 1) * 16) = __builtin_convertvector((three + right) >> 4, bvec);
		left = here, here = right;
	}
#undef ROWS
}

static void k_int8_upsample(ens_pool *p, uint8_t *y, const uint8_t *x, long planes, const long *in, int wrap) {
	int8_field j = {.y = y, .x = x, .in = in, .wrap = wrap};
	ens_parallel(p, int8_upsample_item, &j, planes * 2 * in[1]);
}
