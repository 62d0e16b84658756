// The gradient of the filter of a convolution of bfloat16 by AMX: for each tap a product of the source, moved by
// the tap, with the result's gradient, summed over all places.
//
// Of a band of latitudes the source is transposed, so that a row has the successive places of one channel, and
// a tile of it begins at any place. Of the gradient two successive places lie together for each channel. Both
// count their places along rows as wide as the padded source, so that a tap is a constant distance; between
// rows the gradient is zero. Sums stay in float32 from band to band.

typedef struct {
	direct d;
	long groups, pairs;     // of two blocks of source and of result channels
	long n, y, h;           // sample, first latitude and latitudes of the present band
	long length, places;    // of a transposed row; of the gradient of a band, whole tiles
	uint16_t *source, *dy;  // [blocks][levels][16][length], [column blocks][levels][places/2][16][2]
	float *sums;            // [pairs of source blocks][pairs of column blocks][taps][2][2][16][16]
} direct_filter;

static direct_filter direct_filter_job(const long *g, float *scratch) {
	direct_filter f = {.d = direct_job(g, scratch, 2)};
	const direct *d = &f.d;
	f.groups = (d->blocks[0] + d->blocks[1] + 1) / 2;
	f.pairs = (d->kb + 1) / 2;
	f.length = ((d->ph * d->pw + 2 * DEEP + DEEP - 1) / DEEP | 1) * DEEP; // an odd number of lines, for the sets of a cache
	f.places = (d->h * d->pw + DEEP - 1) / DEEP * DEEP;
	f.sums = (float *)aligned(scratch);
	f.source = (uint16_t *)(f.sums + f.groups * f.pairs * d->j.taps * 4 * 256);
	f.dy = f.source + (d->blocks[0] + d->blocks[1]) * g[W_SD] * 16 * f.length;
	f.d.own = (uint8_t *)(f.dy + d->kb * g[W_D] * f.places * 16);
	f.d.ownlen = f.length * 32;
	return f;
}

// direct_source_item transposes a level of a block of the source.
static void direct_source_item(void *arg, long item) {
	const direct_filter *f = arg;
	const direct *d = &f->d;
	const wino *j = &d->j;
	const long *g = j->g, block = item / g[W_SD], part = block >= d->blocks[0], own = block - (part ? d->blocks[0] : 0), cols = g[W_W] + g[W_KS] - 1;
	const long plane = (g[W_SH] - g[W_FN] - g[W_FS]) * (g[W_SW] - g[W_FW] - g[W_FE]) * 16, edge = halo_cells(g) * 16;
	const long nth = (f->n * d->blocks[part] + own) * g[W_SD] + item % g[W_SD];
	const uint16_t *x = (const uint16_t *)(part ? j->x1 : j->x0) + nth * plane, *halo = (const uint16_t *)(part ? j->f1 : j->f0) + nth * edge;
	hvec *row = (hvec *)(d->own + ens_thread() * d->ownlen), *p = row;
	long cell[cols];
	for (long r = 0; r < f->h + g[W_KS] - 1; r++) {
		source_row(g, f->y + r, 0, cols, cell);
		for (long c = 0; c < cols; c++) {
			const long at = cell[c];
			*p++ = at == -1 ? (hvec){} : *(const hvec *)(at >= 0 ? x + at : halo - 2 - at);
		}
	}
	while (p < row + f->length) *p++ = (hvec){};
	uint16_t *to = f->source + item * 16 * f->length;
	for (long i = 0; i < f->length; i += DEEP) {
		vec r[VL];
		UNROLL for (int k = 0; k < 16; k++) r[k] = (vec)in_words(row[i + 2 * k], row[i + 2 * k + 1]);
		transpose(r);
		UNROLL for (int k = 0; k < 16; k++) store((float *)(to + k * f->length + i), r[k]);
	}
}

// direct_gradient_item pairs the places of a level of a block of the result's gradient.
static void direct_gradient_item(void *arg, long item) {
	const direct_filter *f = arg;
	const direct *d = &f->d;
	const long *g = d->j.g, nth = (f->n * d->kb + item / g[W_D]) * g[W_D] + item % g[W_D];
	const uint16_t *dy = (const uint16_t *)d->j.dy + (nth * g[W_H] + f->y) * g[W_W] * 16;
	uvec *to = (uvec *)(f->dy + item * f->places * 16);
	hvec v[2];
	for (long p = 0, y = 0, x = 0; p < f->places; p++) {
		v[p % 2] = y < f->h && x < g[W_W] ? *(const hvec *)(dy + (y * g[W_W] + x) * 16) : (hvec){};
		if (p % 2) *to++ = in_words(v[0], v[1]);
		if (++x == d->pw) x = 0, y++;
	}
}

// direct_taps adds the products of a band for all taps of a level of the filter, between 16·nm source and 16·nk result channels.
INLINE void direct_taps(const int nm, const int nk, const direct_filter *f, long zt, long group, long pair) {
	const direct *d = &f->d;
	const long *g = d->j.g, ks = g[W_KS], bytes = 2 * f->length, last = (f->h * d->pw + DEEP - 1) / DEEP * DEEP;
	float *sum = f->sums + ((group * f->pairs + pair) * d->j.taps + zt * ks * ks) * 4 * 256;
	for (long tap = 0; tap < ks * ks; tap++, sum += 4 * 256) {
		TILE_LOAD(0, sum, 64);
		if (nk > 1) TILE_LOAD(1, sum + 256, 64);
		if (nm > 1) TILE_LOAD(2, sum + 512, 64);
		if (nm > 1 && nk > 1) TILE_LOAD(3, sum + 768, 64);
		for (long z = 0; z < g[W_D]; z++) {
			const long level = z - g[W_PADZ] + zt;
			if (level < 0 || level >= g[W_SD]) continue;
			const uint16_t *a = f->source + (2 * group * g[W_SD] + level) * 16 * f->length + tap / ks * d->pw + tap % ks, *a1 = a + g[W_SD] * 16 * f->length;
			const uint16_t *b = f->dy + (2 * pair * g[W_D] + z) * f->places * 16, *b1 = b + g[W_D] * f->places * 16;
			for (long p = 0; p < last; p += DEEP, a += DEEP, a1 += DEEP, b += DEEP * 16, b1 += DEEP * 16) {
				TILE_LOAD(4, a, bytes);
				TILE_LOAD(6, b, 64);
				TILE_MULTIPLY(0, 4, 6);
				if (nk > 1) {
					TILE_LOAD(7, b1, 64);
					TILE_MULTIPLY(1, 4, 7);
				}
				if (nm > 1) {
					TILE_LOAD(5, a1, bytes);
					TILE_MULTIPLY(2, 5, 6);
					if (nk > 1) TILE_MULTIPLY(3, 5, 7);
				}
			}
		}
		TILE_STORE(0, sum, 64);
		if (nk > 1) TILE_STORE(1, sum + 256, 64);
		if (nm > 1) TILE_STORE(2, sum + 512, 64);
		if (nm > 1 && nk > 1) TILE_STORE(3, sum + 768, 64);
	}
}

static void direct_taps_item(void *arg, long item) {
	const direct_filter *f = arg;
	const direct *d = &f->d;
	const long zt = item % d->j.g[W_KD], pair = item / d->j.g[W_KD] % f->pairs, group = item / d->j.g[W_KD] / f->pairs;
	const int deep = 2 * group + 1 < d->blocks[0] + d->blocks[1], wide = 2 * pair + 1 < d->kb;
	__asm__ volatile("" ::: "memory"); // tiles read what was stored
	tiles_begin();
	if (deep && wide) direct_taps(2, 2, f, zt, group, pair);
	else if (deep) direct_taps(2, 1, f, zt, group, pair);
	else if (wide) direct_taps(1, 2, f, zt, group, pair);
	else direct_taps(1, 1, f, zt, group, pair);
	tiles_end();
}

// direct_scatter_item writes the gradients between a block of the source and one of the result. What is NaN or
// infinite is summed again without the zeros around fields.
static void direct_scatter_item(void *arg, long item) {
	const direct_filter *f = arg;
	const direct *d = &f->d;
	const wino *j = &d->j;
	const long *g = j->g, block = item / d->kb, k0 = item % d->kb * 16, part = block >= d->blocks[0], from = (block - (part ? d->blocks[0] : 0)) * 16;
	const float *sum = f->sums + ((block / 2 * f->pairs + k0 / 32) * j->taps * 4 + block % 2 * 2 + k0 / 16 % 2) * 256;
	float taps[3 * MOST_SIDE * MOST_SIDE * 16];
	for (long i = 0; i < MIN(16, g[part ? W_C1 : W_C0] - from); i++) {
		const long c = from + i + (part ? g[W_C0] : 0);
		vec all = {};
		for (long t = 0; t < j->taps; t++) {
			vec v = load(sum + t * 4 * 256 + i * 16);
			all += v - v;
			store(taps + t * 16, v);
		}
		if (__builtin_expect(any_nan(all), 0)) plain_taps(j, c, k0, 16, taps);
		untranspose_tile((float *)j->y + (k0 * g[W_WI] + g[W_WLO] + c) * j->taps, g[W_WI] * j->taps, taps, 16, MIN(16, g[W_K] - k0), j->taps);
	}
}

// dw = gradient of the filter between the source's channels and dy, of which both are bfloat16.
static void direct_filter_run(ens_pool *p, float *dw, const void *x0, const void *x1, const void *f0, const void *f1, const void *dy, float *scratch, const long *g) {
	direct_filter f = direct_filter_job(g, scratch);
	const direct *d = &f.d;
	wino *j = &f.d.j;
	j->x16 = 1, j->x0 = x0, j->x1 = x1, j->f0 = f0, j->f1 = f1, j->dy = dy, j->y = dw;
	memset(f.sums, 0, f.groups * f.pairs * j->taps * 4 * 256 * sizeof *f.sums);
	for (f.n = 0; f.n < g[W_N]; f.n++)
		for (f.y = 0; f.y < g[W_H]; f.y += d->h) {
			f.h = MIN(d->h, g[W_H] - f.y);
			ens_parallel(p, direct_source_item, &f, (d->blocks[0] + d->blocks[1]) * g[W_SD]);
			ens_parallel(p, direct_gradient_item, &f, d->kb * g[W_D]);
			ens_parallel(p, direct_taps_item, &f, f.groups * f.pairs * g[W_KD]);
		}
	ens_parallel(p, direct_scatter_item, &f, (d->blocks[0] + d->blocks[1]) * d->kb);
}
