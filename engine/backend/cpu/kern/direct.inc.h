// Convolutions of bfloat16 on the blocked layout by the tiles of AMX: a sum of small matrix products over
// the taps of the filter, without a transform. An instruction multiplies 16 places × 32 source channels
// with 32 × 16 result channels, in the time in which AVX-512 multiplies an eighth of it; so the products
// that Winograd's algorithm spares are worth less than its transforms.
//
// The source of a band of the result, its surroundings included, is packed place by place with 32 channels
// together. Places count along the packed rows, as in one long row: the places that a tap reads for 16
// places of the result are then 16 successive ones at a constant distance. Of the 16 results those beyond
// the end of a row are not used.
//
// Source: Georganas et al. 2018, arXiv:1808.05567 (direct convolutions by small products); Intel,
// Architecture Instruction Set Extensions Programming Reference, chapter 3 (AMX).

// A tile has 16 rows of 64 bytes. 0 to 3 hold sums, of 2×2 tiles; 4 and 5 places, 6 and 7 filters.
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_LOAD(t, p, bytes) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((long)(bytes)))
#define TILE_STORE(t, p, bytes) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((long)(bytes)) : "memory")
#define TILE_MULTIPLY(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

enum {
	PLACES = 16,           // of a tile
	DEEP = 32,             // source channels of a tile
	TILE_HALVES = 16 * 32,        // bfloat16 of a tile
};

static void tiles_begin(void) {
	struct { uint8_t palette, start, rest[14]; uint16_t bytes[16]; uint8_t rows[16]; } all = {.palette = 1};
	for (int t = 0; t < 8; t++) all.bytes[t] = 64, all.rows[t] = 16;
	__asm__ volatile("ldtilecfg %0" ::"m"(all));
}

static void tiles_end(void) { __asm__ volatile("tilerelease" ::); }

typedef struct {
	wino j;           // geometry and operands
	long blocks[2];   // of 16 channels, of the parts of the source
	long groups;      // of two of these
	long pairs, kb;   // of column blocks, and column blocks of 16 result channels
	long h, w, th, tw; // places of a band, and bands along latitudes and longitudes
	long ph, pw, level; // rows and columns of a packed band, and places of a level of it
	uint16_t *filter;  // [pairs][kD][groups][k·k][2][16][16][2]
	uint16_t *own;     // packed bands [groups][levels][level][32] of each thread
	long ownlen;
} direct;

static uint16_t *aligned(void *p) { return (uint16_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

static direct direct_job(const long *g, float *scratch) {
	direct d = {.j = wino_job(g, 0)};
	d.blocks[0] = (g[W_C0] + 15) / 16;
	d.blocks[1] = (g[W_C1] + 15) / 16;
	d.groups = (d.blocks[0] + d.blocks[1] + 1) / 2;
	d.kb = (g[W_K] + 15) / 16;
	d.pairs = (d.kb + 1) / 2;
	d.h = g[W_BAND_H], d.w = g[W_BAND_W];
	d.th = (g[W_H] + d.h - 1) / d.h;
	d.tw = (g[W_W] + d.w - 1) / d.w;
	d.ph = d.h + g[W_KS] - 1;
	d.pw = d.w + g[W_KS] - 1;
	d.level = d.ph * d.pw + 2 * PLACES; // the last tiles read on
	d.filter = aligned(scratch);
	d.own = d.filter + d.pairs * d.j.taps * d.groups * 2 * TILE_HALVES;
	d.ownlen = d.groups * g[W_SD] * d.level * DEEP;
	return d;
}

// in_words has the values of a in the lower and those of b in the upper halves.
INLINE uvec in_words(hvec a, hvec b) { return to_upper(a) >> 16 | to_upper(b); }

// direct_filter_item packs the filters between a group of source channels and a pair of column blocks.
static void direct_filter_item(void *arg, long item) {
	const direct *d = arg;
	const wino *j = &d->j;
	const long *g = j->g, pair = item / d->groups, group = item % d->groups, field = g[W_KS] * g[W_KS];
	float taps[2 * 3 * MOST_SIDE * MOST_SIDE * 16];
	for (long b = 0; b < 2; b++) {
		const long block = 2 * group + b, part = block >= d->blocks[0], from = (block - (part ? d->blocks[0] : 0)) * 16;
		const long have = block < d->blocks[0] + d->blocks[1] ? g[part ? W_C1 : W_C0] - from : 0;
		for (long c = 0; c < 16; c += 2)
			for (long k = 0; k < 2; k++) {
				const long n = MIN(2, have - c), k0 = (2 * pair + k) * 16;
				memset(taps, 0, 2 * j->taps * 16 * sizeof *taps);
				if (n > 0 && k0 < g[W_K]) gather_taps(j, from + c + (part ? g[W_C0] : 0), n, k0, 16, taps);
				for (long t = 0; t < j->taps; t++) {
					const long row = (((pair * g[W_KD] + t / field) * d->groups + group) * field + t % field) * 2 + k;
					uvec *to = (uvec *)(d->filter + row * TILE_HALVES + (b * 8 + c / 2) * 32);
					*to = in_words(half(load(taps + t * 16)), half(load(taps + (j->taps + t) * 16)));
				}
			}
	}
}

typedef struct { long n, y, x, h, w; } band; // where a band begins, and its places

// direct_pack copies the source of a band, zeros around it.
static void direct_pack(const direct *d, band a, uint16_t *to) {
	const wino *j = &d->j;
	const long *g = j->g, rows = a.h + g[W_KS] - 1, cols = a.w + g[W_KS] - 1;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	long cell[cols];
	for (long r = 0; r < rows; r++) {
		source_row(g, a.y + r, a.x, cols, cell);
		for (long b = 0; b < 2 * d->groups; b++) {
			const long part = b >= d->blocks[0], own = b - (part ? d->blocks[0] : 0);
			const int none = own >= d->blocks[part];
			for (long z = 0; z < g[W_SD]; z++) {
				const long nth = (a.n * d->blocks[part] + own) * g[W_SD] + z;
				const uint16_t *x = (const uint16_t *)(part ? j->x1 : j->x0) + nth * plane, *f = (const uint16_t *)(part ? j->f1 : j->f0) + nth * edge;
				uint16_t *p = to + ((b / 2 * g[W_SD] + z) * d->level + r * d->pw) * DEEP + b % 2 * 16;
				for (long c = 0; c < cols; c++, p += DEEP) {
					const long at = cell[c];
					hvec v = {};
					if (!none && at != -1) v = *(const hvec *)(at >= 0 ? x + at : f - 2 - at);
					*(hvec *)p = v;
				}
			}
		}
	}
}

// direct_sums adds the products of 16·nm places from place on with 16·nk result channels, to the tiles of sums.
INLINE void direct_sums(const int nm, const int nk, const direct *d, const uint16_t *packed, long z, long place, const uint16_t *filter) {
	const long *g = d->j.g, ks = g[W_KS];
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (long zt = 0; zt < g[W_KD]; zt++) {
		const long level = z - g[W_PADZ] + zt;
		if (level < 0 || level >= g[W_SD]) continue;
		const uint16_t *f = filter + zt * d->groups * ks * ks * 2 * TILE_HALVES;
		for (long group = 0; group < d->groups; group++) {
			const uint16_t *from = packed + ((group * g[W_SD] + level) * d->level + place) * DEEP;
			for (long y = 0; y < ks; y++, from += (d->pw - ks) * DEEP)
				for (long x = 0; x < ks; x++, from += DEEP, f += 2 * TILE_HALVES) {
					TILE_LOAD(6, f, 64);
					TILE_LOAD(4, from, 64);
					TILE_MULTIPLY(0, 4, 6);
					if (nk > 1) {
						TILE_LOAD(7, f + TILE_HALVES, 64);
						TILE_MULTIPLY(1, 4, 7);
					}
					if (nm > 1) {
						TILE_LOAD(5, from + PLACES * DEEP, 64);
						TILE_MULTIPLY(2, 5, 6);
						if (nk > 1) TILE_MULTIPLY(3, 5, 7);
					}
				}
		}
	}
}

// direct_plain is a vector of sums r with a NaN or infinity, of 16 result channels from k on. Zeros around the source are no terms
// of a sum, but with an infinite filter become NaN.
static __attribute__((noinline, cold)) vec direct_plain(const wino *j, long n, long z, long y, long x, long k, vec r) {
	const long *g = j->g, ks = g[W_KS];
	long cell[MOST_SIDE * MOST_SIDE];
	int around = 0;
	source_rows(g, y, x, ks, cell);
	for (long i = 0; i < ks * ks; i++) around |= cell[i] == -1;
	if (!around) return r;
	vec o[16];
	plain_cells(j, (tile_at){n, z, y & ~3, x & ~3}, 0, k, o);
	return o[y % 4 * 4 + x % 4];
}

// direct_results writes 16 places from place on and 16 result channels from k on, of the sums s.
INLINE void direct_results(const int b16, const direct *d, band a, long z, long place, long k, const float *s) {
	const wino *j = &d->j;
	const long *g = j->g, at = ((a.n * d->kb + k / 16) * g[W_D] + z) * g[W_H] * g[W_W];
	float bias[16] = {0};
	if (j->bias) memcpy(bias, j->bias + k, MIN(16, g[W_K] - k) * sizeof *bias);
	for (long i = 0, y = place / d->pw, x = place % d->pw; i < PLACES && y < a.h; i++, s += 16) {
		if (x < a.w) {
			const long to = (at + (a.y + y) * g[W_W] + a.x + x) * 16;
			vec r = load(s);
			if (__builtin_expect(any_nan(r - r), 0)) r = direct_plain(j, a.n, z, a.y + y, a.x + x, k, r);
			r = first_lanes(r, g[W_K] - k) + load(bias);
			if (g[W_RELU]) r = relu_of(r);
			if (j->plus) r += get_vec(j->plus, to, b16);
			if (j->gate) r = keep(r, get_vec(j->gate, to, b16) > 0);
			put_vec(j->y, to, r, b16);
		}
		if (++x == d->pw) x = 0, y++;
	}
}

// direct_tiles computes 16·nm places of a level and 16·nk result channels.
INLINE void direct_tiles(const int nm, const int nk, const direct *d, band a, const uint16_t *packed, long z, long place, long pair) {
	float s[4][16 * 16] __attribute__((aligned(64)));
	direct_sums(nm, nk, d, packed, z, place, d->filter + pair * d->j.taps * d->groups * 2 * TILE_HALVES);
	TILE_STORE(0, s[0], 64);
	if (nk > 1) TILE_STORE(1, s[1], 64);
	if (nm > 1) TILE_STORE(2, s[2], 64);
	if (nm > 1 && nk > 1) TILE_STORE(3, s[3], 64);
	for (int m = 0; m < nm; m++)
		for (int k = 0; k < nk; k++)
			if (d->j.y16)
				direct_results(1, d, a, z, place + m * PLACES, (2 * pair + k) * 16, s[2 * m + k]);
			else
				direct_results(0, d, a, z, place + m * PLACES, (2 * pair + k) * 16, s[2 * m + k]);
}

// direct_item computes a slice of the column blocks of a band.
static void direct_item(void *arg, long item) {
	const direct *d = arg;
	const long *g = d->j.g, slice = item % g[W_SLICES], lo = slice * d->pairs / g[W_SLICES], hi = (slice + 1) * d->pairs / g[W_SLICES];
	item /= g[W_SLICES];
	band a = {.x = item % d->tw * d->w, .y = item / d->tw % d->th * d->h, .n = item / d->tw / d->th};
	a.h = MIN(d->h, g[W_H] - a.y), a.w = MIN(d->w, g[W_W] - a.x);
	uint16_t *packed = d->own + ens_thread() * d->ownlen;
	direct_pack(d, a, packed);
	__asm__ volatile("" ::: "memory"); // tiles read what was stored
	tiles_begin();
	const long places = (a.h - 1) * d->pw + a.w;
	for (long pair = lo; pair < hi; pair++)
		for (long z = 0; z < g[W_D]; z++)
			for (long p = 0; p < places; p += 2 * PLACES) {
				const int two = places - p > PLACES, wide = 2 * pair + 1 < d->kb;
				if (two && wide) direct_tiles(2, 2, d, a, packed, z, p, pair);
				else if (two) direct_tiles(2, 1, d, a, packed, z, p, pair);
				else if (wide) direct_tiles(1, 2, d, a, packed, z, p, pair);
				else direct_tiles(1, 1, d, a, packed, z, p, pair);
			}
	tiles_end();
}

// y = conv(x, w) (+ bias) (ReLU) (+ plus), or with W_FLIP its adjoint; where gate is given, only where it is positive. y may be plus.
// x is bfloat16, y bfloat16 or float32.
static void direct_run(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g) {
	direct d = direct_job(g, scratch);
	wino *j = &d.j;
	j->x16 = 1, j->y16 = y16, j->x0 = x0, j->x1 = x1, j->f0 = f0, j->f1 = f1, j->w = w, j->bias = bias, j->gate = gate, j->plus = plus, j->y = y;
	ens_parallel(p, direct_filter_item, &d, d.pairs * d.groups);
	ens_parallel(p, direct_item, &d, g[W_N] * d.th * d.tw * g[W_SLICES]);
}
