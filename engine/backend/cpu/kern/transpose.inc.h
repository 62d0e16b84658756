// Transposition in registers.

// transpose turns VL vectors of VL values: stage by stage, lanes whose bit s
// is set change places with vectors whose bit s is set.
INLINE void transpose(vec *v) {
	UNROLL for (int s = 1; s < VL; s *= 2) {
		ivec lo, hi; // lanes of the two results out of a pair; VL and more are of the second
		UNROLL for (int l = 0; l < VL; l++) {
			lo[l] = l & s ? VL + (l ^ s) : l;
			hi[l] = l & s ? VL + l : l | s;
		}
		UNROLL for (int i = 0; i < VL; i++)
			if ((i & s) == 0) {
				vec a = v[i], b = v[i | s];
				v[i] = __builtin_shuffle(a, b, lo);
				v[i | s] = __builtin_shuffle(a, b, hi);
			}
	}
}

// load_first loads the first n ≤ VL values, zeros for the rest.
INLINE vec load_first(const float *p, long n) {
	if (n >= VL) return load(p);
	vec v = {};
	memcpy(&v, p, n * sizeof *p);
	return v;
}

INLINE void store_first(float *p, vec v, long n) {
	if (n >= VL) store(p, v);
	else memcpy(p, &v, n * sizeof *p);
}

// transpose_tile: to[c][r] = from[r][c] for r < rows ≤ VL and c < cols. Rows of
// the result are whole vectors, zero beyond rows. A negative ts turns the order
// of the columns round.
INLINE void transpose_tile(float *to, long ts, const float *from, long fs, long rows, long cols) {
	for (long c = 0; c < cols; c += VL) {
		long n = MIN(VL, cols - c);
		vec v[VL];
		for (long r = 0; r < VL; r++) v[r] = r < rows ? load_first(from + r * fs + c, n) : (vec){};
		transpose(v);
		for (long r = 0; r < n; r++) store(to + (c + r) * ts, v[r]);
	}
}

// untranspose_tile: to[r][c] = from[c][r] for r < rows ≤ VL and c < cols.
INLINE void untranspose_tile(float *to, long ts, const float *from, long fs, long rows, long cols) {
	for (long c = 0; c < cols; c += VL) {
		long n = MIN(VL, cols - c);
		vec v[VL];
		for (long r = 0; r < VL; r++) v[r] = r < n ? load(from + (c + r) * fs) : (vec){};
		transpose(v);
		for (long r = 0; r < rows; r++) store_first(to + r * ts + c, v[r], n);
	}
}
