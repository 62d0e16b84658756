// Transposition in registers.

// Tables of lanes for shuffles of two vectors, constants to the compiler.
#if VL == 16
#define LANE_TABLE(f) {f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)}
#elif VL == 8
#define LANE_TABLE(f) {f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)}
#else
#define LANE_TABLE(f) {f(0), f(1), f(2), f(3)}
#endif
#define SHUFFLE(a, b, f) __builtin_shuffle(a, b, (ivec)LANE_TABLE(f))
#define UNPACK_LO(k) (((k) & ~3) + ((k) & 3) / 2 + ((k) & 1) * VL)
#define UNPACK_HI(k) (UNPACK_LO(k) + 2)
#define PAIR_LO(k) (((k) & ~3) + ((k) & 1) + ((k) & 2) / 2 * VL)
#define PAIR_HI(k) (PAIR_LO(k) + 2)
#define FOUR_LO(k) ((k) & 4 ? VL + (k) - 4 : (k))
#define FOUR_HI(k) ((k) & 4 ? VL + (k) : (k) + 4)
#define EIGHT_LO(k) ((k) & 8 ? VL + (k) - 8 : (k))
#define EIGHT_HI(k) ((k) & 8 ? VL + (k) : (k) + 8)
#define TURN_PAIR(a, b, f)                  \
	do {                                    \
		vec u = a, v = b;                   \
		a = SHUFFLE(u, v, f##_LO);          \
		b = SHUFFLE(u, v, f##_HI);          \
	} while (0)

// transpose turns VL vectors of VL lanes: squares of four first, which every
// instruction set shuffles with one instruction, then squares change places.
INLINE void transpose(vec *r) {
	UNROLL for (int i = 0; i < VL; i += 4) {
		TURN_PAIR(r[i], r[i + 1], UNPACK);
		TURN_PAIR(r[i + 2], r[i + 3], UNPACK);
		TURN_PAIR(r[i], r[i + 2], PAIR);
		TURN_PAIR(r[i + 1], r[i + 3], PAIR);
		vec t = r[i + 1];
		r[i + 1] = r[i + 2];
		r[i + 2] = t;
	}
#if VL >= 8
	UNROLL for (int i = 0; i < VL; i++)
		if (!(i & 4)) TURN_PAIR(r[i], r[i + 4], FOUR);
#endif
#if VL >= 16
	UNROLL for (int i = 0; i < 8; i++) TURN_PAIR(r[i], r[i + 8], EIGHT);
#endif
}

// load_first loads the first n ≤ VL values, zeros for the rest.
INLINE vec load_first(const float *p, long n) {
	if (n >= VL) return load(p);
#if defined(__AVX512F__)
	return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
	vec v = {};
	memcpy(&v, p, n * sizeof *p);
	return v;
#endif
}

INLINE void store_first(float *p, vec v, long n) {
	if (n >= VL) store(p, v);
#if defined(__AVX512F__)
	else _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
	else memcpy(p, &v, n * sizeof *p);
#endif
}

// transpose_tile: to[c][r] = from[r][c] for r < rows ≤ VL and c < cols. Rows of
// the result are whole vectors, zero beyond rows. A negative ts turns the order
// of the columns round.
INLINE void transpose_tile(float *to, long ts, const float *from, long fs, long rows, long cols) {
	for (long c = 0; c < cols; c += VL) {
		long n = MIN(VL, cols - c);
		vec v[VL];
		if (rows == VL && n == VL) // without branches for each row
			UNROLL for (long r = 0; r < VL; r++) v[r] = load(from + r * fs + c);
		else
			for (long r = 0; r < VL; r++) v[r] = r < rows ? load_first(from + r * fs + c, n) : (vec){};
		transpose(v);
		if (n == VL)
			UNROLL for (long r = 0; r < VL; r++) store(to + (c + r) * ts, v[r]);
		else
			for (long r = 0; r < n; r++) store(to + (c + r) * ts, v[r]);
	}
}

// untranspose_tile: to[r][c] = from[c][r] for r < rows ≤ VL and c < cols.
INLINE void untranspose_tile(float *to, long ts, const float *from, long fs, long rows, long cols) {
	for (long c = 0; c < cols; c += VL) {
		long n = MIN(VL, cols - c);
		vec v[VL];
		if (n == VL)
			UNROLL for (long r = 0; r < VL; r++) v[r] = load(from + (c + r) * fs);
		else
			for (long r = 0; r < VL; r++) v[r] = r < n ? load(from + (c + r) * fs) : (vec){};
		transpose(v);
		if (rows == VL && n == VL)
			UNROLL for (long r = 0; r < VL; r++) store(to + r * ts + c, v[r]);
		else
			for (long r = 0; r < rows; r++) store_first(to + r * ts + c, v[r], n);
	}
}
