// Convolution over plain tensors, without any change of layout but a padded
// copy of the source. With rows of Wp cells in the padded copy, the filter tap
// (kh, kw) of every output cell of a plane lies at one constant distance
// kh*Wp + kw: a whole plane is one long vector, whatever its width. The few
// cells computed in the gap between rows are left out when results are stored.
//
// Depth is handled by a table: the source plane under each tap of each output
// plane, or -1 for padding. So no product falls on padding in depth.

typedef float vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

enum {
	// Register tiles: RC filters times RV vectors, and for the filter gradient
	// RC channels times RK taps.
	RC = VL == 16 ? 8 : 4,
	RV = 3,
	RK = 3,
	TILE = RV * VL,
	SPAN = 4 * TILE, // positions an item takes
	BLOCK = 512,     // positions of the filter gradient that stay in cache
};

// The geometry, as Go fills it (conv.go).
enum {
	G_N, G_CI, G_CO, G_DI, G_DO, G_KD, // batch, channels, depths
	G_KH, G_KW, G_DH, G_DW,            // filter and dilation
	G_H, G_W, G_HO, G_WO,              // source and result
	G_HLO, G_WLO, G_HP, G_WP,          // padding before, padded source
	G_HMODE, G_WMODE,
	G_PS,                              // distance of padded planes
	G_FLIP,                            // filter is [CI CO ...] and reversed: backward data
	G_BIAS, G_RELU,
	G_COUNT
};

typedef struct {
	const long *g;
	const int *taps; // [DO][KD]
	const float *x, *w, *bias;
	float *y, *xp, *wp, *dy;
	int *infinite; // becomes 1 if the filter or a result is not finite: the kernels multiply the zeros of the padding, and sums in float32 may overflow on their way
} conv_job;

// embed copies a plane into the padded one and clears the rest up to PS.
static void embed(float *y, const float *x, const long *g, long h, long w, long hlo, long wlo, long hp, int hmode, int wmode) {
	long wp = g[G_WP];
	float *end = y + g[G_PS];
	for (long i = 0; i < hp; i++, y += wp) {
		long s = source(i, h, hlo, hmode);
		if (s < 0) {
			memset(y, 0, wp * sizeof *y);
			continue;
		}
		const float *r = x + s * w;
		for (long k = 0; k < wlo; k++) {
			long c = source(k, w, wlo, wmode);
			y[k] = c < 0 ? 0 : r[c];
		}
		memcpy(y + wlo, r, w * sizeof *y);
		for (long k = wlo + w; k < wp; k++) {
			long c = source(k, w, wlo, wmode);
			y[k] = c < 0 ? 0 : r[c];
		}
	}
	memset(y, 0, (end - y) * sizeof *y);
}

static void embed_source(void *v, long plane) {
	const conv_job *j = v;
	const long *g = j->g;
	embed(j->xp + plane * g[G_PS], j->x + plane * g[G_H] * g[G_W], g, g[G_H], g[G_W], g[G_HLO], g[G_WLO], g[G_HP],
			g[G_HMODE], g[G_WMODE]);
}

static void embed_gradient(void *v, long plane) {
	const conv_job *j = v;
	const long *g = j->g;
	embed(j->dy + plane * g[G_PS], j->y + plane * g[G_HO] * g[G_WO], g, g[G_HO], g[G_WO], 0, 0, g[G_HO], 0, 0);
}

// pack writes the filters of a block of RC results as [ci][kd][kh][kw][RC].
static void pack_item(void *v, long cb) {
	const conv_job *j = v;
	const long *g = j->g;
	long ci = g[G_CI], co = g[G_CO], k = g[G_KD] * g[G_KH] * g[G_KW];
	float *o = j->wp + cb * ci * k * RC, all = 0;
	for (long c = 0; c < ci; c++)
		for (long t = 0; t < k; t++)
			for (long r = 0; r < RC; r++) {
				long q = cb * RC + r;
				*o = q >= co ? 0 : g[G_FLIP] ? j->w[(c * co + q) * k + k - 1 - t] : j->w[(q * ci + c) * k + t];
				all += *o - *o;
				o++;
			}
	if (all != all) __atomic_store_n(j->infinite, 1, __ATOMIC_RELAXED);
}

// tile computes n of the RC results at TILE positions from p; n is constant
// after inlining.
static inline __attribute__((always_inline)) void tile(const conv_job *j, const int n, const float *x, const float *w,
		const int *tap, float *out) {
	const long *g = j->g;
	long step = g[G_DW], row = g[G_DH] * g[G_WP], kh = g[G_KH], kw = g[G_KW], kd = g[G_KD], ps = g[G_PS];
	vec acc[RC][RV];
	for (int r = 0; r < n; r++)
		for (int q = 0; q < RV; q++) acc[r][q] = (vec){0};
	for (long c = 0; c < g[G_CI]; c++, x += g[G_DI] * ps)
		for (long d = 0; d < kd; d++) {
			if (tap[d] < 0) {
				w += kh * kw * RC;
				continue;
			}
			const float *plane = x + tap[d] * ps;
			for (long h = 0; h < kh; h++, plane += row)
				for (long k = 0; k < kw; k++, w += RC) {
					const float *s = plane + k * step;
					vec b[RV];
					for (int q = 0; q < RV; q++) b[q] = *(const vec *)(s + q * VL);
					for (int r = 0; r < n; r++)
						for (int q = 0; q < RV; q++) acc[r][q] += w[r] * b[q];
				}
		}
	for (int r = 0; r < n; r++)
		for (int q = 0; q < RV; q++) *(vec *)(out + r * TILE + q * VL) = acc[r][q];
}

static void conv_item(void *v, long item) {
	const conv_job *j = v;
	const long *g = j->g;
	long co = g[G_CO], blocks = (co + RC - 1) / RC, len = (g[G_HO] - 1) * g[G_WP] + g[G_WO];
	long spans = (len + SPAN - 1) / SPAN, area = g[G_HO] * g[G_WO];
	// Blocks of results turn fastest: they share the source.
	long cb = item % blocks, span = item / blocks % spans, d = item / blocks / spans % g[G_DO], n = item / blocks / spans / g[G_DO];
	const float *x = j->xp + n * g[G_CI] * g[G_DI] * g[G_PS];
	const float *w = j->wp + cb * g[G_CI] * g[G_KD] * g[G_KH] * g[G_KW] * RC;
	long have = MIN(RC, co - cb * RC);
	float out[RC * TILE] __attribute__((aligned(64))), all = 0;
	for (long p = span * SPAN; p < MIN(len, (span + 1) * SPAN); p += TILE) {
		if (have == 1) tile(j, 1, x + p, w, j->taps + d * g[G_KD], out);
		else if (have == 2) tile(j, 2, x + p, w, j->taps + d * g[G_KD], out);
		else if (have <= 4) tile(j, MIN(4, RC), x + p, w, j->taps + d * g[G_KD], out);
		else tile(j, RC, x + p, w, j->taps + d * g[G_KD], out);
		for (long r = 0; r < have; r++) {
			float *y = j->y + ((n * co + cb * RC + r) * g[G_DO] + d) * area;
			float b = g[G_BIAS] ? j->bias[cb * RC + r] : 0;
			long end = MIN(p + TILE, len);
			for (long q = p; q < end;) { // the runs of cells that are no gap
				long h = q / g[G_WP], k = q % g[G_WP], m = MIN(g[G_WO] - k, end - q);
				const float *o = out + r * TILE + q - p;
				float *to = y + h * g[G_WO] + k;
				if (g[G_RELU])
					for (long i = 0; i < m; i++) { float t = o[i] + b; all += t - t; to[i] = t < 0 ? 0 : t; }
				else
					for (long i = 0; i < m; i++) { float t = o[i] + b; all += t - t; to[i] = t; }
				q = m > 0 && k + m < g[G_WO] ? q + m : (h + 1) * g[G_WP];
			}
		}
	}
	if (all != all) __atomic_store_n(j->infinite, 1, __ATOMIC_RELAXED);
}

// Forward, and backward data as the forward of the gradient with the filter
// reversed. scratch holds the padded source and the packed filter.
static void k_conv(ens_pool *p, float *y, const float *x, const float *w, const float *bias, float *scratch,
		const long *g, const int *taps, int *infinite) {
	long planes = g[G_N] * g[G_CI] * g[G_DI], blocks = (g[G_CO] + RC - 1) / RC;
	long spans = ((g[G_HO] - 1) * g[G_WP] + g[G_WO] + SPAN - 1) / SPAN;
	conv_job j = {g, taps, x, w, bias, y, scratch, scratch + planes * g[G_PS] + TILE, 0, infinite};
	ens_parallel(p, embed_source, &j, planes);
	ens_parallel(p, pack_item, &j, blocks);
	ens_parallel(p, conv_item, &j, g[G_N] * g[G_DO] * spans * blocks);
}

// dots adds to acc, for n of RC gradients and m of RK taps, the products over
// a block of positions.
static inline __attribute__((always_inline)) void dots(const int n, const int m, vec *acc, const float *dy, long stride,
		const float *const *x, long len) {
	vec a[RC][RK];
	for (int r = 0; r < n; r++)
		for (int k = 0; k < m; k++) a[r][k] = acc[r * RK + k];
	for (long i = 0; i < len; i += VL) {
		vec b[RK];
		for (int k = 0; k < m; k++) b[k] = *(const vec *)(x[k] + i);
		for (int r = 0; r < n; r++) {
			vec s = *(const vec *)(dy + r * stride + i);
			for (int k = 0; k < m; k++) a[r][k] += s * b[k];
		}
	}
	for (int r = 0; r < n; r++)
		for (int k = 0; k < m; k++) acc[r * RK + k] = a[r][k];
}

enum { MAX_TAPS = 128 }; // groups of RK taps of a filter that fit the stack

static void filter_item(void *v, long item) {
	const conv_job *j = v;
	const long *g = j->g;
	long ci = g[G_CI], co = g[G_CO], blocks = (co + RC - 1) / RC, ps = g[G_PS], kk = g[G_KH] * g[G_KW], kd = g[G_KD];
	long cb = item % blocks, c = item / blocks, have = MIN(RC, co - cb * RC), groups = (kk + RK - 1) / RK;
	long len = ((g[G_HO] - 1) * g[G_WP] + g[G_WO] + VL - 1) / VL * VL, stride = g[G_DO] * ps;
	vec acc[MAX_TAPS * RC * RK];
	memset(acc, 0, kd * groups * RC * RK * sizeof *acc);
	for (long n = 0; n < g[G_N]; n++)
		for (long d = 0; d < g[G_DO]; d++)
			for (long p = 0; p < len; p += BLOCK) {
				const float *dy = j->dy + ((n * co + cb * RC) * g[G_DO] + d) * ps + p;
				long m = MIN(BLOCK, len - p);
				for (long k = 0; k < kd; k++) {
					int di = j->taps[d * kd + k];
					if (di < 0) continue;
					const float *x = j->xp + ((n * ci + c) * g[G_DI] + di) * ps + p;
					for (long q = 0; q < groups; q++) {
						const float *at[RK];
						for (int t = 0; t < RK; t++) {
							long tap = MIN(q * RK + t, kk - 1); // a repeated tap is computed and not used
							at[t] = x + tap / g[G_KW] * g[G_DH] * g[G_WP] + tap % g[G_KW] * g[G_DW];
						}
						vec *to = acc + (k * groups + q) * RC * RK;
						if (kk == 1 && have == RC) dots(RC, 1, to, dy, stride, at, m);
						else if (have == RC) dots(RC, RK, to, dy, stride, at, m);
						else
							for (long r = 0; r < have; r++) dots(1, RK, to + r * RK, dy + r * stride, 0, at, m);
					}
				}
			}
	for (long r = 0; r < have; r++)
		for (long k = 0; k < kd; k++)
			for (long t = 0; t < kk; t++) {
				vec a = acc[((k * groups + t / RK) * RC + r) * RK + t % RK];
				double s = 0;
				for (int i = 0; i < VL; i++) s += a[i];
				j->wp[(((cb * RC + r) * ci + c) * kd + k) * kk + t] = s;
				if (!(s - s == 0)) __atomic_store_n(j->infinite, 1, __ATOMIC_RELAXED);
			}
}

// dw[co][ci][kd][kh][kw] = sum over the batch and all cells of dy times x.
static void k_conv_filter(ens_pool *p, float *dw, const float *x, const float *dy, float *scratch, const long *g, const int *taps, int *infinite) {
	long planes = g[G_N] * g[G_CI] * g[G_DI], blocks = (g[G_CO] + RC - 1) / RC;
	conv_job j = {g, taps, x, 0, 0, (float *)dy, scratch, dw, scratch + planes * g[G_PS] + TILE, infinite};
	ens_parallel(p, embed_source, &j, planes);
	ens_parallel(p, embed_gradient, &j, g[G_N] * g[G_CO] * g[G_DO]);
	ens_parallel(p, filter_item, &j, blocks * g[G_CI]);
}
