// Sums of outer products of patches: the symmetric matrix of a convolution's patches.

enum {
	GRAM_PIECE = 256, // patches that are multiplied in float32 before sums are added in double
	GRAM_PACK = 16,   // patches of an item of packing
};

typedef struct {
	float *out;      // [side (side+1) / 2], the lower triangle by rows
	double *sums;    // [side][width]
	float *panel;    // [GRAM_PIECE][width]
	const float *x;
	const long *g;       // samples, channels; sizes of x, of the positions and of the taps along three axes; ones
	const long *taps[3]; // index of x that a position reads by a tap, or -1
	const float *scale[3]; // factors of a patch by position along each axis
	long side, width, lo, count;
} gram_job;

// gram_width is the length of a row of panel and sums: whole vectors, and no multiple of 4 KiB, at which the rows of
// a panel would share the same lines of the cache.
static long gram_width(long side) {
	long w = (side + 15) / 16 * 16;
	return w % 256 ? w : w + 16;
}

// gram_pack copies patches to rows of the panel: by channel, then by tap, then a one.
static void gram_pack(void *v, long item) {
	const gram_job *j = v;
	const long *g = j->g, *in = g + 2, *out = g + 5, *k = g + 8;
	long cells = in[0] * in[1] * in[2];
	for (long p = item * GRAM_PACK; p < MIN(j->count, (item + 1) * GRAM_PACK); p++) {
		long at = j->lo + p, l = at % out[2], h = at / out[2] % out[1], d = at / out[2] / out[1] % out[0];
		const float *x = j->x + at / out[2] / out[1] / out[0] * g[1] * cells;
		float *to = j->panel + p * j->width, factor = j->scale[0][d] * j->scale[1][h] * j->scale[2][l];
		for (long c = 0; c < g[1]; c++, x += cells)
			for (long a = 0; a < k[0]; a++) {
				long jd = j->taps[0][d * k[0] + a];
				for (long b = 0; b < k[1]; b++) {
					long jh = j->taps[1][h * k[1] + b];
					const float *row = x + (jd * in[1] + jh) * in[2];
					for (long t = 0; t < k[2]; t++) {
						long jl = j->taps[2][l * k[2] + t];
						*to++ = (jd | jh | jl) < 0 ? 0 : row[jl] * factor;
					}
				}
			}
		if (g[11]) *to++ = factor;
		for (float *end = j->panel + (p + 1) * j->width; to < end;) *to++ = 0;
	}
}

// gram_rows adds the products of a panel to MR rows of the sums, up to the diagonal.
static void gram_rows(void *v, long item) {
	const gram_job *j = v;
	long r = item * MR, m = MIN(MR, j->side - r);
	float part[MR * NR];
	for (long c = 0; c < r + m; c += NR) {
		int nv = j->width - c >= NR ? NV : (int)((j->width - c) / VL);
		mm_cols_fns[m - 1][nv - 1](j->count, j->panel + r, j->width, j->panel + c, j->width, part, NR, 0);
		for (long q = 0; q < m; q++) {
			double *to = j->sums + (r + q) * j->width + c;
			EACH(i, 0, nv * VL) to[i] += part[q * NR + i];
		}
	}
}

// gram_store rounds one row of the sums.
static void gram_store(void *v, long r) {
	const gram_job *j = v;
	for (long c = 0; c <= r; c++) j->out[r * (r + 1) / 2 + c] = j->sums[r * j->width + c];
}

// out = the sum of p p^T over all patches p, the lower triangle by rows. scratch has room for a panel and then for the
// sums in double. The order of the sums does not depend on the threads.
static void k_gram(ens_pool *p, float *out, const float *x, const long *g, const long *taps0, const long *taps1, const long *taps2,
		const float *scale, float *scratch) {
	long side = g[1] * g[8] * g[9] * g[10] + g[11], width = gram_width(side), all = g[0] * g[5] * g[6] * g[7];
	gram_job j = {out, (double *)(scratch + GRAM_PIECE * width), scratch, x, g, {taps0, taps1, taps2},
		{scale, scale + g[5], scale + g[5] + g[6]}, side, width, 0, 0};
	memset(j.sums, 0, side * width * sizeof *j.sums);
	for (; j.lo < all; j.lo += GRAM_PIECE) {
		j.count = MIN(GRAM_PIECE, all - j.lo);
		ens_parallel(p, gram_pack, &j, (j.count + GRAM_PACK - 1) / GRAM_PACK);
		ens_parallel(p, gram_rows, &j, (side + MR - 1) / MR);
	}
	ens_parallel(p, gram_store, &j, side);
}
