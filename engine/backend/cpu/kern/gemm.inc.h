// Small matrix products in registers: the inner loops of all convolutions on
// the blocked layout.
//
//	C[r][j] (+)= sum over k of A[r][k] * B[k][j],   r < mr, j < nv vectors
//
// Two ways to walk A: rows (mm_rows) reads A[r][k] at a + r*as + k, columns
// (mm_cols) at a + k*as + r. B[k] lies at b + k*bs, C[r] at c + r*cs.

enum {
	MR = VL == 16 ? 14 : 6, // rows of a register tile
	NV = 2,                 // its vectors: 28 or 12 sums, and room for A and B
	NR = NV * VL,
};

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1") // where the addresses of all iterations would not fit into registers

INLINE vec load(const float *p) { return *(const vec *)p; }
typedef int ivec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

// keep leaves v where the mask is set, and zero elsewhere.
INLINE vec keep(vec v, ivec mask) { return (vec)((ivec)v & mask); }
INLINE void store(float *p, vec v) { *(vec *)p = v; }

// relu_of is the ReLU of v; NaN passes, since no comparison with it holds.
INLINE vec relu_of(vec v) {
#if VL == 16 && defined(__AVX512F__)
	return (vec)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_NLE_UQ), (__m512)v);
#else
	return keep(v, ~(v <= 0));
#endif
}

// any_nan reports whether a lane is NaN. Of x − x it reports whether a lane of x is NaN or infinite.
INLINE int any_nan(vec v) {
#if VL == 16 && defined(__AVX512F__)
	return _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0;
#elif VL == 8 && defined(__AVX2__)
	return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q)) != 0;
#else
	int any = 0;
	for (int i = 0; i < VL; i++) any |= v[i] != v[i];
	return any;
#endif
}

// first_lanes is v in the first n lanes and zero in the others.
INLINE vec first_lanes(vec v, long n) {
	static const int on[2 * VL] = {[0 ... VL - 1] = -1};
	return keep(v, *(const ivec *)(on + VL - MIN(MAX(n, 0), VL)));
}

// fma_of is acc + s·b. As halves, s and the words of b are two bfloat16 each, and both
// products are added; HALVES is 1 if this instruction set supports that.
#if VL == 16 && defined(__AVX512BF16__)
#define HALVES 1
INLINE vec fma_of(const int half, vec acc, float s, vec b) {
	if (half) return (vec)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_ps(s), (__m512bh)b);
	return acc + s * b;
}
#else
#define HALVES 0
INLINE vec fma_of(const int half, vec acc, float s, vec b) { return acc + s * b; }
#endif

// Three rows share one address register: base, base + as, base + 2*as.
INLINE void mm_rows_of(const int half, const int mr, const int nv, long kc, const float *a, long as, const float *b, long bs, float *c, long cs, int add) {
	vec acc[MR][NV];
	const float *base[(MR + 2) / 3];
	UNROLL for (int r = 0; r < mr; r++) {
		if (r % 3 == 0) base[r / 3] = a + r * as;
		UNROLL for (int j = 0; j < nv; j++) acc[r][j] = add ? load(c + r * cs + j * VL) : (vec){};
	}
	for (long k = 0; k < kc; k++, b += bs) {
		vec bv[NV];
		UNROLL for (int j = 0; j < nv; j++) {
			bv[j] = load(b + j * VL);
			__builtin_prefetch(b + kc * bs + j * VL); // of the next product, which comes from far
		}
		UNROLL for (int r = 0; r < mr; r++) {
			float s = base[r / 3][r % 3 * as + k];
			UNROLL for (int j = 0; j < nv; j++) acc[r][j] = fma_of(half, acc[r][j], s, bv[j]);
		}
	}
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) store(c + r * cs + j * VL, acc[r][j]);
}

INLINE void mm_cols_of(const int half, const int mr, const int nv, long kc, const float *a, long as, const float *b, long bs, float *c, long cs, int add) {
	vec acc[MR][NV];
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) acc[r][j] = add ? load(c + r * cs + j * VL) : (vec){};
	for (long k = 0; k < kc; k++, a += as, b += bs) {
		vec bv[NV];
		UNROLL for (int j = 0; j < nv; j++) bv[j] = load(b + j * VL);
		UNROLL for (int r = 0; r < mr; r++) {
			UNROLL for (int j = 0; j < nv; j++) acc[r][j] = fma_of(half, acc[r][j], a[r], bv[j]);
		}
	}
	UNROLL for (int r = 0; r < mr; r++)
		UNROLL for (int j = 0; j < nv; j++) store(c + r * cs + j * VL, acc[r][j]);
}

// One function for each number of rows and vectors.
#define MM_ARGS long kc, const float *a, long as, const float *b, long bs, float *c, long cs, int add
#define MM_FORM(way, half, form, m) \
	static __attribute__((noinline)) void form##_##m##_1(MM_ARGS) { way##_of(half, m, 1, kc, a, as, b, bs, c, cs, add); } \
	static __attribute__((noinline)) void form##_##m##_2(MM_ARGS) { way##_of(half, m, 2, kc, a, as, b, bs, c, cs, add); }
#define MM_DEFINE(way, m) MM_FORM(way, 0, way, m)
#define MM_HALF(way, m) MM_FORM(way, 1, way##_half, m)
#define MM_ENTRY(way, m) {way##_##m##_1, way##_##m##_2},
#if VL == 16
#define MM_EACH(X, way) X(way, 1) X(way, 2) X(way, 3) X(way, 4) X(way, 5) X(way, 6) X(way, 7) X(way, 8) \
	X(way, 9) X(way, 10) X(way, 11) X(way, 12) X(way, 13) X(way, 14)
#else
#define MM_EACH(X, way) X(way, 1) X(way, 2) X(way, 3) X(way, 4) X(way, 5) X(way, 6)
#endif
MM_EACH(MM_DEFINE, mm_rows)
MM_EACH(MM_DEFINE, mm_cols)

typedef void (*mm_fn)(MM_ARGS);
static const mm_fn mm_rows_fns[MR][NV] = {MM_EACH(MM_ENTRY, mm_rows)};
static const mm_fn mm_cols_fns[MR][NV] = {MM_EACH(MM_ENTRY, mm_cols)};
#if HALVES
MM_EACH(MM_HALF, mm_rows)
MM_EACH(MM_HALF, mm_cols)
static const mm_fn mm_rows_half_fns[MR][NV] = {MM_EACH(MM_ENTRY, mm_rows_half)};
static const mm_fn mm_cols_half_fns[MR][NV] = {MM_EACH(MM_ENTRY, mm_cols_half)};
#endif

// mm runs a product of any number of rows and of columns in whole vectors, in
// register tiles of nearly equal height; rstep is the distance of A between
// tiles' rows: as for rows, 1 for columns.
INLINE void mm(const mm_fn (*fns)[NV], long rstep, long rows, long cols, MM_ARGS) {
	long tiles = (rows + MR - 1) / MR;
	for (long j = 0; j < cols; j += NR) {
		int nv = cols - j >= NR ? NV : (int)((cols - j) / VL);
		for (long i = 0, r = 0; i < tiles; i++) {
			long m = (rows - r + tiles - i - 1) / (tiles - i);
			if (add) // the sums of the next tile come from far
				for (long q = r + m; q < MIN(rows, r + 2 * m); q++)
					for (int v = 0; v < NR; v += 16) __builtin_prefetch(c + q * cs + j + v);
			fns[m - 1][nv - 1](kc, a + r * rstep, as, b + j, bs, c + r * cs + j, cs, add);
			r += m;
		}
	}
}

static void mm_rows(long rows, long cols, MM_ARGS) { mm(mm_rows_fns, as, rows, cols, kc, a, as, b, bs, c, cs, add); }
static void mm_cols(long rows, long cols, MM_ARGS) { mm(mm_cols_fns, 1, rows, cols, kc, a, as, b, bs, c, cs, add); }
#if HALVES
static void mm_rows_half(long rows, long cols, MM_ARGS) { mm(mm_rows_half_fns, as, rows, cols, kc, a, as, b, bs, c, cs, add); }
static void mm_cols_half(long rows, long cols, MM_ARGS) { mm(mm_cols_half_fns, 1, rows, cols, kc, a, as, b, bs, c, cs, add); }
#endif
