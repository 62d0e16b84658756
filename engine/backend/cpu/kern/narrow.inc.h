// Convolutions from a blocked field to a few plain channels (the last layer of a
// U-Net), and their gradients: stride 1, sums as they stand. They are bound by reading
// the blocked field once.

// The geometry, as Go fills it (narrow.go).
enum {
	T_N, T_C, T_K, T_D, T_H, T_W, // batch, channels of the blocked field and of the result, the field
	T_KD, T_KS, // levels and side of the filter
	T_RH, T_RW, // rows and columns of the result
	T_PADY, T_PADX, // what the first window reaches before the field
	T_WRAP, T_RELU, T_COUNT
};

enum { NARROW_SUMS = 12, NARROW_RUN = VL == 16 ? 8 : 4 }; // result channels times side, at most; cells that go together

typedef struct {
	const long *g;
	const void *x, *gate; // blocked
	void *dx;
	const float *w, *bias, *dy;
	float *y, *dw;
	float *filters;  // [K][taps][C in whole blocks]
	int strict;      // the filter is not finite: padding of the gradient is no term of a sum
	float *gradient; // dy with pad cells on both sides of each row: [N][K][D][RH][RW + 2 pad]
	long taps, blocks, pad;
} narrow;

static narrow narrow_job(const long *g) {
	return (narrow){.g = g, .taps = g[T_KD] * g[T_KS] * g[T_KS], .blocks = (g[T_C] + CELL - 1) / CELL, .pad = g[T_KS] - 1 - g[T_PADX]};
}

// narrow_row is the number of the first cell of a row of a block.
INLINE long narrow_row(const narrow *j, long n, long b, long d, long h) {
	const long *g = j->g;
	return (((n * j->blocks + b) * g[T_D] + d) * g[T_H] + h) * g[T_W];
}

INLINE long narrow_gradient_row(const narrow *j, long n, long k, long d, long h) {
	const long *g = j->g;
	return (((n * g[T_K] + k) * g[T_D] + d) * g[T_RH] + h) * (g[T_RW] + 2 * j->pad);
}

#define XOR_8(k) ((k) ^ 8)
#define XOR_4(k) ((k) ^ 4)
#define XOR_2(k) ((k) ^ 2)
#define XOR_1(k) ((k) ^ 1)
#define ADD_LANES(v, f) v += __builtin_shuffle(v, (ivec)LANE_TABLE(f))

// lanes is the sum over a cell.
INLINE float lanes(cell c) {
	vec v = c.v[0];
	for (int q = 1; q < CV; q++) v += c.v[q];
#if VL >= 16
	ADD_LANES(v, XOR_8);
#endif
#if VL >= 8
	ADD_LANES(v, XOR_4);
#endif
	ADD_LANES(v, XOR_2);
	ADD_LANES(v, XOR_1);
	return v[0];
}

// filter_is_finite reports whether all values of a filter are finite.
static int filter_is_finite(const float *w, long n) {
	float s = 0;
	for (long i = 0; i < n; i++) s += w[i] - w[i];
	return s == s;
}

static void narrow_filters_item(void *arg, long i) {
	const narrow *j = arg;
	long c = j->g[T_C], k = i / j->taps, t = i % j->taps, whole = j->blocks * CELL;
	for (long l = 0; l < whole; l++) j->filters[i * whole + l] = l < c ? j->w[(k * c + l) * j->taps + t] : 0;
}

static void narrow_gradient_item(void *arg, long row) {
	const narrow *j = arg;
	long w = j->g[T_RW], pad = j->pad;
	const float *from = j->dy + row * w;
	float *to = j->gradient + row * (w + 2 * pad);
	for (long i = -pad; i < w + pad; i++) {
		long at = j->g[T_WRAP] ? (i + w) % w : i;
		to[i + pad] = at < 0 || at >= w ? 0 : from[at];
	}
}

// narrow_cell is one cell of the result as a sum in double, which does not overflow on its way.
static __attribute__((noinline, cold)) float narrow_cell(const narrow *j, long n, long k, long d, long h, long col, int b16) {
	const long *g = j->g, side = g[T_KS];
	double sum = j->bias ? j->bias[k] : 0;
	for (long c = 0; c < g[T_C]; c++)
		for (long zt = MAX(0, g[T_KD] / 2 - d); zt < MIN(g[T_KD], g[T_D] + g[T_KD] / 2 - d); zt++)
			for (long yt = MAX(0, g[T_PADY] - h); yt < MIN(side, g[T_H] + g[T_PADY] - h); yt++)
				for (long xt = 0; xt < side; xt++) {
					long x = col + xt - g[T_PADX];
					if (g[T_WRAP]) x = (x + g[T_W]) % g[T_W];
					if (x < 0 || x >= g[T_W]) continue;
					long at = (narrow_row(j, n, c / CELL, d + zt - g[T_KD] / 2, h + yt - g[T_PADY]) + x) * CELL + c % CELL;
					sum += (double)get(j->x, at, b16) * j->w[(k * g[T_C] + c) * j->taps + (zt * side + yt) * side + xt];
				}
	return sum;
}

// narrow_sum adds the taps of run cells that begin at column col; inner cells see
// the whole filter.
INLINE void narrow_sum(const narrow *j, const int run, const int inner, long n, long k, long d, long h, long col, float *out, const int b16) {
	const long *g = j->g, side = g[T_KS];
	cell acc[NARROW_RUN] = {0};
	for (long b = 0; b < j->blocks; b++)
		for (long zt = MAX(0, g[T_KD] / 2 - d); zt < MIN(g[T_KD], g[T_D] + g[T_KD] / 2 - d); zt++)
			for (long yt = MAX(0, g[T_PADY] - h); yt < MIN(side, g[T_H] + g[T_PADY] - h); yt++) {
				long row = narrow_row(j, n, b, d + zt - g[T_KD] / 2, h + yt - g[T_PADY]), t = (zt * side + yt) * side;
				const float *f = j->filters + ((k * j->taps + t) * j->blocks + b) * CELL;
				for (long xt = 0; xt < side; xt++, f += j->blocks * CELL) {
					long x = col + xt - g[T_PADX];
					if (!inner) {
						if (g[T_WRAP]) x = (x + g[T_W]) % g[T_W];
						if (x < 0 || x >= g[T_W]) continue;
					}
					cell c = get_cell(f, 0, 0);
					UNROLL for (int i = 0; i < run; i++) {
						cell v = get_cell(j->x, (row + x + i) * CELL, b16);
						EACH_VEC(q) acc[i].v[q] += v.v[q] * c.v[q];
					}
				}
			}
	for (int i = 0; i < run; i++) {
		float s = lanes(acc[i]) + (j->bias ? j->bias[k] : 0);
		if (__builtin_expect(!(s - s == 0), 0)) s = narrow_cell(j, n, k, d, h, col + i, b16);
		out[i] = g[T_RELU] && s < 0 ? 0 : s;
	}
}

INLINE void narrow_item(const narrow *j, long i, const int b16) {
	const long *g = j->g;
	long h = i % g[T_RH], d = i / g[T_RH] % g[T_D], n = i / g[T_RH] / g[T_D];
	for (long k = 0; k < g[T_K]; k++) {
		float *out = j->y + (((n * g[T_K] + k) * g[T_D] + d) * g[T_RH] + h) * g[T_RW];
		for (long x = 0; x < g[T_RW];)
			if (x >= g[T_PADX] && x + NARROW_RUN <= g[T_RW] && x + NARROW_RUN + j->pad <= g[T_W]) {
				narrow_sum(j, NARROW_RUN, 1, n, k, d, h, x, out + x, b16);
				x += NARROW_RUN;
			} else {
				narrow_sum(j, 1, 0, n, k, d, h, x, out + x, b16);
				x++;
			}
	}
}
STORED(narrow_item)

// y = conv(x, w) (+ bias) (ReLU).
static void k_narrow(ens_pool *p, int b16, float *y, const void *x, const float *w, const float *bias, float *scratch, const long *g) {
	narrow j = narrow_job(g);
	j.x = x, j.w = w, j.bias = bias, j.y = y, j.filters = scratch;
	ens_parallel(p, narrow_filters_item, &j, g[T_K] * j.taps);
	ens_parallel(p, PICK(narrow_item, b16), &j, g[T_N] * g[T_D] * g[T_RH]);
}

// narrow_back adds what run cells from column col on got from the results.
INLINE void narrow_back(const narrow *j, const int run, long n, long b, long d, long h, long col, const int b16) {
	const long *g = j->g, side = g[T_KS];
	cell acc[NARROW_RUN] = {0};
	for (long k = 0; k < g[T_K]; k++)
		for (long zt = MAX(0, d + g[T_KD] / 2 - g[T_D] + 1); zt < MIN(g[T_KD], d + g[T_KD] / 2 + 1); zt++)
			for (long yt = MAX(0, h + g[T_PADY] - g[T_RH] + 1); yt < MIN(side, h + g[T_PADY] + 1); yt++) {
				const float *s = j->gradient + narrow_gradient_row(j, n, k, d - zt + g[T_KD] / 2, h - yt + g[T_PADY]) + col + side - 1;
				const float *f = j->filters + ((k * j->taps + (zt * side + yt) * side) * j->blocks + b) * CELL;
				for (long xt = 0; xt < side; xt++, s--, f += j->blocks * CELL) {
					long from = col + side - 1 - xt - j->pad;
					if (j->strict && !g[T_WRAP] && (from < 0 || from >= g[T_RW])) continue;
					cell c = get_cell(f, 0, 0);
					UNROLL for (int i = 0; i < run; i++)
						EACH_VEC(q) acc[i].v[q] += s[i] * c.v[q];
				}
			}
	long at = (narrow_row(j, n, b, d, h) + col) * CELL;
	for (int i = 0; i < run; i++) {
		if (j->gate) {
			cell z = get_cell(j->gate, at + i * CELL, b16);
			EACH_VEC(q) acc[i].v[q] = pick(above(z.v[q], (vec){}), acc[i].v[q], (vec){});
		}
		EACH_VEC(q) acc[i].v[q] = first_lanes(acc[i].v[q], g[T_C] - b * CELL - q * VL); // the padding stays zero beside NaN
		put_cell(j->dx, at + i * CELL, acc[i], b16);
	}
}

INLINE void narrow_data_item(const narrow *j, long i, const int b16) {
	const long *g = j->g;
	long h = i % g[T_H], d = i / g[T_H] % g[T_D], b = i / g[T_H] / g[T_D] % j->blocks, n = i / g[T_H] / g[T_D] / j->blocks, x = 0;
	for (; !j->strict && x + NARROW_RUN <= g[T_W]; x += NARROW_RUN) narrow_back(j, NARROW_RUN, n, b, d, h, x, b16);
	for (; x < g[T_W]; x++) narrow_back(j, 1, n, b, d, h, x, b16);
}
STORED(narrow_data_item)

// dx = the adjoint of dy, where gate is given only where it is positive.
static void k_narrow_data(ens_pool *p, int b16, void *dx, const float *dy, const float *w, const void *gate, float *scratch, const long *g) {
	narrow j = narrow_job(g);
	j.dx = dx, j.dy = dy, j.w = w, j.gate = gate, j.filters = scratch, j.gradient = scratch + g[T_K] * j.taps * j.blocks * CELL;
	j.strict = !filter_is_finite(w, g[T_K] * g[T_C] * j.taps);
	ens_parallel(p, narrow_filters_item, &j, g[T_K] * j.taps);
	ens_parallel(p, narrow_gradient_item, &j, g[T_N] * g[T_K] * g[T_D] * g[T_RH]);
	ens_parallel(p, PICK(narrow_data_item, b16), &j, g[T_N] * j.blocks * g[T_D] * g[T_H]);
}

// narrow_tap is one tap of the filter's gradient as a sum without the padding of the gradient's rows, of
// which the products with NaN are NaN.
static __attribute__((noinline, cold)) float narrow_tap(const narrow *j, long k, long c, long zt, long yt, long xt, int b16) {
	const long *g = j->g;
	double sum = 0;
	for (long n = 0; n < g[T_N]; n++)
		for (long d = MAX(0, g[T_KD] / 2 - zt); d < MIN(g[T_D], g[T_D] + g[T_KD] / 2 - zt); d++)
			for (long h = MAX(0, g[T_PADY] - yt); h < MIN(g[T_RH], g[T_H] + g[T_PADY] - yt); h++) {
				long at = narrow_row(j, n, c / CELL, d + zt - g[T_KD] / 2, h + yt - g[T_PADY]) * CELL + c % CELL;
				const float *dy = j->gradient + narrow_gradient_row(j, n, k, d, h);
				for (long x = 0; x < g[T_W]; x++) {
					long from = x + g[T_KS] - 1 - xt;
					if (g[T_WRAP] || (from >= j->pad && from < j->pad + g[T_RW])) sum += (double)get(j->x, at + x * CELL, b16) * dy[from];
				}
			}
	return sum;
}

// narrow_taps makes one row of taps of VL channels: a sum in registers for each
// row of the field, and the sum of these.
INLINE void narrow_taps(const narrow *j, long b, int q, long zt, long yt, const int ks, const int nk, const int b16) {
	const long *g = j->g;
	vec total[NARROW_SUMS] = {0};
	for (long n = 0; n < g[T_N]; n++)
		for (long d = MAX(0, g[T_KD] / 2 - zt); d < MIN(g[T_D], g[T_D] + g[T_KD] / 2 - zt); d++)
			for (long h = MAX(0, g[T_PADY] - yt); h < MIN(g[T_RH], g[T_H] + g[T_PADY] - yt); h++) {
				vec acc[NARROW_SUMS] = {0};
				long at = narrow_row(j, n, b, d + zt - g[T_KD] / 2, h + yt - g[T_PADY]) * CELL + q * VL;
				const float *s[4];
				for (int k = 0; k < nk; k++) s[k] = j->gradient + narrow_gradient_row(j, n, k, d, h) + g[T_KS] - 1;
				for (long x = 0; x < g[T_W]; x++) {
					vec v = get_vec(j->x, at + x * CELL, b16);
					for (int k = 0; k < nk; k++)
						for (int i = 0; i < ks; i++) acc[k * ks + i] += s[k][x - i] * v;
				}
				for (int i = 0; i < nk * ks; i++) total[i] += acc[i];
			}
	for (int k = 0; k < nk; k++)
		for (int i = 0; i < ks; i++)
			for (int l = 0; l < VL; l++) {
				long c = b * CELL + q * VL + l;
				float t = total[k * ks + i][l];
				if (c < g[T_C]) j->dw[(k * g[T_C] + c) * j->taps + (zt * ks + yt) * ks + i] = t - t == 0 ? t : narrow_tap(j, k, c, zt, yt, i, b16);
			}
}

INLINE void narrow_filter_item(const narrow *j, long i, const int b16) {
	const long *g = j->g, side = g[T_KS];
	long yt = i % side, zt = i / side % g[T_KD], q = i / side / g[T_KD] % CV, b = i / side / g[T_KD] / CV;
	if (side == 3 && g[T_K] == 1) narrow_taps(j, b, q, zt, yt, 3, 1, b16);
	else if (side == 1 && g[T_K] == 1) narrow_taps(j, b, q, zt, yt, 1, 1, b16);
	else narrow_taps(j, b, q, zt, yt, side, g[T_K], b16);
}
STORED(narrow_filter_item)

// dw = gradient of the filter between x and dy.
static void k_narrow_filter(ens_pool *p, int b16, float *dw, const void *x, const float *dy, float *scratch, const long *g) {
	narrow j = narrow_job(g);
	j.x = x, j.dy = dy, j.dw = dw, j.gradient = scratch;
	ens_parallel(p, narrow_gradient_item, &j, g[T_N] * g[T_K] * g[T_D] * g[T_RH]);
	ens_parallel(p, PICK(narrow_filter_item, b16), &j, j.blocks * CV * g[T_KD] * g[T_KS]);
}
