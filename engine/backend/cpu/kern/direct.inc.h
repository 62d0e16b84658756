// Convolutions on the blocked layout by the tiles of AMX: a sum of small matrix products over the taps of the
// filter, without a transform. Values are bfloat16, or int8 values (directint8.inc.h). An instruction
// multiplies 16 places × 64 bytes of source channels with as many × 16 result channels, in the time in which
// AVX-512 multiplies an eighth of it; so the products that Winograd's algorithm spares are worth less than its
// transforms.
//
// The source of a band of the result, its surroundings included, is packed place by place with all channels
// together. Places count along the packed rows, as in one long row: the places that a tap reads for 16
// places of the result are then 16 successive ones at a constant distance. Of the 16 results those beyond
// the end of a row are not used. The places that a row of the filter reads for one result follow each other
// too, so tiles take 64 bytes after 64 bytes of them, wherever a place ends: three places of 16 channels
// of bfloat16 are two tiles, not three. What the last tile reads beyond the filter is multiplied by zeros.
//
// Source: Georganas et al. 2018, arXiv:1808.05567 (direct convolutions by small products); Intel,
// Architecture Instruction Set Extensions Programming Reference, chapter 3 (AMX).

// A tile has 16 rows of 64 bytes. 0 to 3 hold sums; the others places and filters.
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_LOAD(t, p, bytes) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((long)(bytes)))
#define TILE_STORE(t, p, bytes) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((long)(bytes)) : "memory")
#define TILE_MULTIPLY(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define TILE_MULTIPLY_CODES(c, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::) // a unsigned, b signed

enum {
	PLACES = 16,   // of a tile
	DEEP = 32,     // bfloat16 of a row of a tile
	TILE_BYTES = 1024,   // bytes of a tile
	MOST_SUMS = 4, // tiles of sums
};

static void tiles_begin(void) {
	struct { uint8_t palette, start, rest[14]; uint16_t bytes[16]; uint8_t rows[16]; } all = {.palette = 1};
	for (int t = 0; t < 8; t++) all.bytes[t] = 64, all.rows[t] = 16;
	__asm__ volatile("ldtilecfg %0" ::"m"(all));
}

static void tiles_end(void) { __asm__ volatile("tilerelease" ::); }

typedef struct { long n, y, x, h, w; } band; // where a band of the result begins, and its places

// Sums of nm·16 places of a level from place on and of nk·16 result channels from block k on, as tiles [nm][nk];
// those before next are in the result.
typedef struct {
	float s[MOST_SUMS][16 * 16] __attribute__((aligned(64)));
	const uint8_t *packed;
	band a;
	long z, place, k;
	int nm, nk, next;
} tile_sums;

typedef struct direct direct;
struct direct {
	wino j;            // geometry and operands
	long blocks[2], kb; // of 16 channels: of the parts of the source, and of the result
	long bytes, chunks; // of all source channels of a place; tiles of what a row of the filter reads for a place
	long h, w, th, tw; // places of a band, and bands along latitudes and longitudes
	long ph, pw, level; // rows and columns of a packed band, and bytes of a level of it
	long column;       // bytes of the filters of a block of result channels
	uint8_t *filter;   // [kb][kD][k][chunks][16][64]
	uint8_t *own;      // packed bands [levels][level] of each thread
	long ownlen;
	void (*results)(const direct *, const tile_sums *, int tile);
	const ens_quantisation *q; // of codes, with
	int *from;                 // what sums begin with, [kb][kD][16], and
	float *scale;              // their scales, [kb][16]
};

static uint8_t *aligned(void *p) { return (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

// direct_job has the geometry for values of size bytes.
static direct direct_job(const long *g, void *scratch, long size) {
	direct d = {.j = wino_job(g, 0)};
	d.blocks[0] = (g[W_C0] + 15) / 16;
	d.blocks[1] = (g[W_C1] + 15) / 16;
	d.kb = (g[W_K] + 15) / 16;
	d.bytes = (d.blocks[0] + d.blocks[1]) * 16 * size;
	d.chunks = (g[W_KS] * d.bytes + 63) / 64;
	d.h = g[W_BAND_H], d.w = g[W_BAND_W];
	d.th = (g[W_H] + d.h - 1) / d.h;
	d.tw = (g[W_W] + d.w - 1) / d.w;
	d.ph = d.h + g[W_KS] - 1;
	d.pw = d.w + g[W_KS] - 1;
	d.level = ((d.ph * d.pw + PLACES) * d.bytes + 127) / 64 * 64; // the last tiles read on, and 64 bytes further
	d.column = g[W_KD] * g[W_KS] * d.chunks * TILE_BYTES;
	d.filter = aligned(scratch);
	d.own = d.filter + d.kb * d.column;
	d.ownlen = g[W_SD] * d.level;
	return d;
}

// --- the packed source -----------------------------------------------------------

typedef struct { long from, to, at; } cell_run; // columns of a packed row, and the offset of the first of them, as of cell_at

// cell_runs cuts a row of cells into runs that follow each other in the source, and single cells.
static long cell_runs(const long *cell, long n, cell_run *run) {
	long runs = 0;
	for (long c = 0, end; c < n; c = end) {
		for (end = c + 1; end < n && cell[c] >= 0 && cell[end] == cell[end - 1] + 16;) end++;
		run[runs++] = (cell_run){c, end, cell[c]};
	}
	return runs;
}

// direct_pack copies the source of a band, with the codes of zero around it.
INLINE void direct_pack(const int size, const direct *d, band a, uint8_t *to) {
	const wino *j = &d->j;
	const long *g = j->g, rows = a.h + g[W_KS] - 1, cols = a.w + g[W_KS] - 1;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	long cell[cols];
	cell_run run[cols];
	for (long r = 0; r < rows; r++) {
		source_row(g, a.y + r, a.x, cols, cell);
		const long runs = cell_runs(cell, cols, run);
		for (long z = 0; z < g[W_SD]; z++) {
			uint8_t *row = to + z * d->level + r * d->pw * d->bytes;
			memset(row + cols * d->bytes, 0, 64); // for the tiles that read beyond the filter; the next row begins here
			for (long part = 0; part < 2; part++)
				for (long b = 0; b < d->blocks[part]; b++, row += 16 * size) {
					const long nth = (a.n * d->blocks[part] + b) * g[W_SD] + z;
					const uint8_t *x = (const uint8_t *)(part ? j->x1 : j->x0) + nth * plane * size;
					const uint8_t *f = (const uint8_t *)(part ? j->f1 : j->f0) + nth * edge * size;
					for (const cell_run *i = run; i < run + runs; i++) {
						uint8_t *p = row + i->from * d->bytes;
						if (i->at == -1) {
							memset(p, size == 1 ? d->q->zero[part] : 0, 16 * size);
							continue;
						}
						const uint8_t *v = i->at >= 0 ? x + i->at * size : f + (-2 - i->at) * size;
						for (long c = i->from; c < i->to; c++, p += d->bytes, v += 16 * size) memcpy(p, v, 16 * size);
					}
				}
		}
	}
}

// --- sums ------------------------------------------------------------------------

// direct_levels counts the levels of the source that level z of the result reads.
INLINE long direct_levels(const long *g, long z) {
	const long lo = z - g[W_PADZ];
	return MIN(lo + g[W_KD], g[W_SD]) - MAX(lo, 0);
}

#define MULTIPLY(c, a, b)                 \
	do {                                  \
		if (size == 1)                    \
			TILE_MULTIPLY_CODES(c, a, b); \
		else                              \
			TILE_MULTIPLY(c, a, b);       \
	} while (0)

// direct_step multiplies 64 bytes of nm·16 places with nk·16 result channels. A column of filters that is loaded
// serves all places, so one block of result channels takes up to four tiles of places, and two take two.
INLINE void direct_step(const int nm, const int nk, const int size, const direct *d, const uint8_t *from, const uint8_t *f) {
	const long bytes = d->bytes, next = PLACES * bytes;
	TILE_LOAD(7, f, 64);
	TILE_LOAD(4, from, bytes);
	MULTIPLY(0, 4, 7);
	if (nk > 1) {
		TILE_LOAD(6, f + d->column, 64);
		MULTIPLY(1, 4, 6);
		if (nm > 1) {
			TILE_LOAD(5, from + next, bytes);
			MULTIPLY(2, 5, 7);
			MULTIPLY(3, 5, 6);
		}
		return;
	}
	if (nm > 1) {
		TILE_LOAD(5, from + next, bytes);
		MULTIPLY(1, 5, 7);
	}
	if (nm > 2) {
		TILE_LOAD(6, from + 2 * next, bytes);
		MULTIPLY(2, 6, 7);
	}
	if (nm > 3) {
		TILE_LOAD(4, from + 3 * next, bytes);
		MULTIPLY(3, 4, 7);
	}
}

// direct_tiles computes the sums s. Meanwhile it brings those of before to the result, tile by tile: products of
// tiles and vectors are computed at the same time.
INLINE void direct_tiles(const int nm, const int nk, const int size, const direct *d, tile_sums *s, tile_sums *before) {
	const long *g = d->j.g, ks = g[W_KS];
	const int tiles = before->nm * before->nk;
	const long pause = MAX(1, direct_levels(g, s->z) * ks * d->chunks / MAX(1, tiles));
	long wait = pause;
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (long zt = 0; zt < g[W_KD]; zt++) {
		const long level = s->z - g[W_PADZ] + zt;
		if (level < 0 || level >= g[W_SD]) continue;
		const uint8_t *f = d->filter + s->k * d->column + zt * ks * d->chunks * TILE_BYTES;
		for (long y = 0; y < ks; y++) {
			const uint8_t *from = s->packed + level * d->level + (s->place + y * d->pw) * d->bytes;
			for (long c = 0; c < d->chunks; c++, from += 64, f += TILE_BYTES) {
				direct_step(nm, nk, size, d, from, f);
				if (--wait == 0) {
					if (before->next < tiles) d->results(d, before, before->next++);
					wait = pause;
				}
			}
		}
	}
	while (before->next < tiles) d->results(d, before, before->next++);
	s->nm = nm, s->nk = nk, s->next = 0;
	TILE_STORE(0, s->s[0], 64);
	if (nm * nk > 1) TILE_STORE(1, s->s[1], 64);
	if (nm * nk > 2) TILE_STORE(2, s->s[2], 64);
	if (nm * nk > 3) TILE_STORE(3, s->s[3], 64);
}

// direct_of computes a slice of the blocks of result channels of a band.
INLINE void direct_of(const int size, const direct *d, long item) {
	const long *g = d->j.g, slice = item % g[W_SLICES], pairs = (d->kb + 1) / 2;
	const long lo = slice * pairs / g[W_SLICES] * 2, hi = MIN((slice + 1) * pairs / g[W_SLICES] * 2, d->kb);
	item /= g[W_SLICES];
	band a = {.x = item % d->tw * d->w, .y = item / d->tw % d->th * d->h, .n = item / d->tw / d->th};
	a.h = MIN(d->h, g[W_H] - a.y), a.w = MIN(d->w, g[W_W] - a.x);
	uint8_t *packed = d->own + ens_thread() * d->ownlen;
	direct_pack(size, d, a, packed);
	__asm__ volatile("" ::: "memory"); // tiles read what was stored
	tiles_begin();
	const long places = (a.h - 1) * d->pw + a.w;
	tile_sums both[2], *s = both, *before = both + 1;
	before->nm = before->nk = before->next = 0;
	for (long k = lo; k < hi; k += 2)
		for (long z = 0; z < g[W_D]; z++)
			for (long p = 0, rest; (rest = (places - p + PLACES - 1) / PLACES) > 0;) {
				s->packed = packed, s->a = a, s->z = z, s->place = p, s->k = k;
				if (k + 1 < hi && rest > 1) direct_tiles(2, 2, size, d, s, before);
				else if (k + 1 < hi) direct_tiles(1, 2, size, d, s, before);
				else if (rest > 3) direct_tiles(4, 1, size, d, s, before);
				else if (rest > 2) direct_tiles(3, 1, size, d, s, before);
				else if (rest > 1) direct_tiles(2, 1, size, d, s, before);
				else direct_tiles(1, 1, size, d, s, before);
				p += s->nm * PLACES;
				tile_sums *t = s;
				s = before, before = t;
			}
	while (before->next < before->nm * before->nk) d->results(d, before, before->next++);
	tiles_end();
}

// EACH_RESULT runs over the results of a tile: i counts its rows, y and x are the place in the band, and width is that of the result.
#define EACH_RESULT(d, s, first)                                                                                          \
	for (long i = 0, columns = d->pw, width = d->j.g[W_W], h = s->a.h, w = s->a.w, y = (first) / columns, x = (first) % columns; \
		i < PLACES && y < h; i++, x = x + 1 == columns ? (y++, 0) : x + 1)                                                   \
		if (x < w)

// first_place is the index of the first value of the band in a block k of the result.
INLINE long first_place(const direct *d, const tile_sums *s, long k) {
	const long *g = d->j.g;
	return (((s->a.n * d->kb + k) * g[W_D] + s->z) * g[W_H] * g[W_W] + s->a.y * g[W_W] + s->a.x) * 16;
}

// --- bfloat16 --------------------------------------------------------------------

// in_words has the values of a in the lower and those of b in the upper halves.
INLINE uvec in_words(hvec a, hvec b) { return to_upper(a) >> 16 | to_upper(b); }

// filter_row is the row of a tile with source channel c of tap t for the block k of result channels; parts of size
// bytes of a row go to successive channels.
INLINE uint8_t *filter_row(const direct *d, long size, long k, long t, long c) {
	const long ks = d->j.g[W_KS], byte = t % ks * d->bytes + c * size;
	return d->filter + k * d->column + (t / ks * d->chunks + byte / 64) * TILE_BYTES + byte % 64 / 4 * 64;
}

// source_channels counts the channels from c on of a part of the source, at most n, and finds the first of
// them in the filter.
INLINE long source_channels(const direct *d, long c, long n, long *first) {
	const long *g = d->j.g, part = c >= d->blocks[0] * 16, from = part ? c - d->blocks[0] * 16 : c;
	*first = from + (part ? g[W_C0] : 0);
	return MAX(0, MIN(n, g[part ? W_C1 : W_C0] - from));
}

// direct_filter_item packs the filters of a block of result channels.
static void direct_filter_item(void *arg, long k) {
	const direct *d = arg;
	const wino *j = &d->j;
	float taps[2 * 3 * MOST_SIDE * MOST_SIDE * 16];
	memset(d->filter + k * d->column, 0, d->column);
	for (long c = 0; c < (d->blocks[0] + d->blocks[1]) * 16; c += 2) {
		long first, n = source_channels(d, c, 2, &first);
		if (n == 0) continue;
		memset(taps + j->taps * 16, 0, j->taps * 16 * sizeof *taps);
		gather_taps(j, first, n, k * 16, 16, taps);
		for (long t = 0; t < j->taps; t++)
			*(uvec *)filter_row(d, 2, k, t, c) = in_words(half(load(taps + t * 16)), half(load(taps + (j->taps + t) * 16)));
	}
}

// window_nan reports whether what a place reads has a NaN, which all results of the place then are.
static int window_nan(const direct *d, const tile_sums *s, long place) {
	const long *g = d->j.g, ks = g[W_KS];
	for (long level = MAX(s->z - g[W_PADZ], 0); level < MIN(s->z - g[W_PADZ] + g[W_KD], g[W_SD]); level++)
		for (long y = 0; y < ks; y++) {
			const uint16_t *v = (const uint16_t *)(s->packed + level * d->level + (place + y * d->pw) * d->bytes);
			for (long i = 0; i < ks * d->bytes / 2; i++)
				if ((v[i] & 0x7fff) > 0x7f80) return 1;
		}
	return 0;
}

// direct_plain is a vector of sums r with a NaN or infinity, of the place at y, x and 16 result channels from k
// on. Zeros around the source are no terms of a sum, but with an infinite filter become NaN; so do infinite
// values that a tile reads beyond the filter.
static __attribute__((noinline, cold)) vec direct_plain(const direct *d, const tile_sums *s, long y, long x, long k, vec r) {
	const long *g = d->j.g, ks = g[W_KS];
	long cell[MOST_SIDE * MOST_SIDE];
	int other = ks * d->bytes % 64 != 0;
	source_rows(g, s->a.y + y, s->a.x + x, ks, cell);
	for (long i = 0; i < ks * ks; i++) other |= cell[i] == -1;
	if (!other || window_nan(d, s, y * d->pw + x)) return r;
	vec o[16];
	y += s->a.y, x += s->a.x;
	plain_cells(&d->j, (tile_at){s->a.n, s->z, y & ~3, x & ~3}, 0, k, o);
	return o[y % 4 * 4 + x % 4];
}

// direct_values brings a tile of sums to the result.
INLINE void direct_values(const int b16, const direct *d, const tile_sums *s, int tile) {
	const wino *j = &d->j;
	const long *g = j->g, k = s->k + tile % s->nk, left = g[W_K] - k * 16;
	float bias[16] = {0};
	if (j->bias) memcpy(bias, j->bias + k * 16, MIN(16, left) * sizeof *bias);
	const vec add = load(bias);
	const void *plus = j->plus, *gate = j->gate;
	const long first = first_place(d, s, k);
	void *to = at(j->y, first, b16);
	const int relu = g[W_RELU];
	EACH_RESULT(d, s, s->place + tile / s->nk * PLACES) {
		const long cell = (y * width + x) * 16;
		vec r = load(s->s[tile] + i * 16);
		if (__builtin_expect(any_nan(r - r), 0)) r = direct_plain(d, s, y, x, k * 16, r);
		r = first_lanes(r, left) + add;
		if (relu) r = relu_of(r);
		if (plus) r += get_vec(plus, first + cell, b16);
		if (gate) r = keep(r, get_vec(gate, first + cell, b16) > 0);
		put_vec(to, cell, r, b16);
	}
}

static void direct_halves(const direct *d, const tile_sums *s, int tile) { direct_values(1, d, s, tile); }
static void direct_floats(const direct *d, const tile_sums *s, int tile) { direct_values(0, d, s, tile); }

static void direct_item(void *arg, long item) { direct_of(2, arg, item); }

// y = conv(x, w) (+ bias) (ReLU) (+ plus), or with W_FLIP its adjoint; where gate is given, only where it is positive. y may be plus.
// x is bfloat16, y bfloat16 or float32.
static void direct_run(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const void *f0, const void *f1, const float *w, const float *bias, const void *gate, const void *plus, float *scratch, const long *g) {
	direct d = direct_job(g, scratch, 2);
	wino *j = &d.j;
	j->x16 = 1, j->y16 = y16, j->x0 = x0, j->x1 = x1, j->f0 = f0, j->f1 = f1, j->w = w, j->bias = bias, j->gate = gate, j->plus = plus, j->y = y;
	d.results = y16 ? direct_halves : direct_floats;
	ens_parallel(p, direct_filter_item, &d, d.kb);
	ens_parallel(p, direct_item, &d, g[W_N] * d.th * d.tw * g[W_SLICES]);
}
