// Convolutions of codes (winoint8.inc.h) by AMX without a transform: codes of the source are multiplied as they
// are stored, so nothing is rounded but the filter. It is rounded to int8 with the scales of the source's
// channels in it, by a scale for each result channel. Sums of whole numbers are exact, in any order.
//
//	sum of (code − zero) · filter = sum of code · filter − zero · sum of the filter
//
// Places around the source have the code zero. Levels beyond it are not multiplied, so the last sum is kept
// for each level of the filter.
//
// Source: Jacob et al. 2018, arXiv:1712.05877, section 2.3.

// codes_filter_item rounds and packs the filters of a block of result channels, four source channels at a time,
// whose codes are the bytes of a word. The first pass finds the largest value.
static void codes_filter_item(void *arg, long k) {
	const direct *d = arg;
	const wino *j = &d->j;
	const long field = j->g[W_KS] * j->g[W_KS], left = j->g[W_K] - k * 16;
	int *from = d->from + k * j->g[W_KD] * 16;
	float taps[4 * 27 * 16], out[16] = {0};
	vec most = {}, inverse = {};
	memset(d->filter + k * d->column, 0, d->column);
	memset(from, 0, j->g[W_KD] * 16 * sizeof *from);
	for (int pass = 0; pass < 2; pass++) {
		for (long c = 0; c < (d->blocks[0] + d->blocks[1]) * 16; c += 4) {
			long first, n = source_channels(d, c, 4, &first);
			const float *channel = d->q->channels + first;
			const int zero = d->q->zero[c >= d->blocks[0] * 16];
			if (n == 0) continue;
			gather_taps(j, first, n, k * 16, 16, taps);
			for (long t = 0; t < j->taps; t++) {
				uvec word = {};
				ivec sum = {};
				for (long i = 0; i < n; i++) {
					const vec v = load(taps + (i * j->taps + t) * 16) * channel[i], a = magnitude(v);
					if (pass == 0) {
						most = keep(a, a > most) + keep(most, most >= a);
						continue;
					}
					const ivec r = nearest(v * inverse);
					word |= ((uvec)r & 255) << 8 * i;
					sum -= zero * r;
				}
				if (pass == 0) continue;
				*(uvec *)filter_row(d, 1, k, t, c) = word;
				*(ivec *)(from + t / field * 16) += sum;
			}
		}
		inverse = keep((vec){} + 127 / most, most > 0);
	}
	for (long i = 0; i < MIN(16, left); i++) out[i] = d->q->out ? d->q->out[k * 16 + i] : 1;
	store(d->scale + k * 16, most * load(out) / 127);
}

// codes_results brings a tile of sums to the result.
static void codes_results(const direct *d, const tile_sums *s, int tile) {
	const wino *j = &d->j;
	const long *g = j->g, k = s->k + tile % s->nk;
	float bias[16] = {0};
	for (long i = 0; j->bias && i < MIN(16, g[W_K] - k * 16); i++) bias[i] = j->bias[k * 16 + i] * (d->q->out ? d->q->out[k * 16 + i] : 1);
	ivec first = {};
	for (long zt = 0; zt < g[W_KD]; zt++) {
		const long level = s->z - g[W_PADZ] + zt;
		if (level >= 0 && level < g[W_SD]) first += *(const ivec *)(d->from + (k * g[W_KD] + zt) * 16);
	}
	const vec scale = load(d->scale + k * 16), add = load(bias);
	const long to = first_place(d, s, k);
	const int8_sink sink = sink_of(j, d->q);
	EACH_RESULT(d, s, s->place + tile / s->nk * PLACES) {
		const ivec sum = *(const ivec *)(s->s[tile] + i * 16) + first;
		int8_put(sink, to + (y * width + x) * 16, __builtin_convertvector(sum, vec) * scale + add);
	}
}

static void codes_item(void *arg, long item) { direct_of(1, arg, item); }

// y = conv(x, w) + bias (ReLU) of codes; y is codes, or bfloat16 or float32.
static void direct_int8_run(ens_pool *p, int y16, void *y, const void *x0, const void *x1, const float *w, const float *bias, void *scratch, const long *g, const ens_quantisation *q) {
	direct d = direct_job(g, scratch, 1);
	wino *j = &d.j;
	j->y16 = y16, j->x0 = x0, j->x1 = x1, j->w = w, j->bias = bias, j->y = y;
	d.q = q, d.results = codes_results;
	d.from = (int *)d.own;
	d.scale = (float *)(d.from + d.kb * g[W_KD] * 16);
	d.own = (uint8_t *)(d.scale + d.kb * 16);
	ens_parallel(p, codes_filter_item, &d, d.kb);
	ens_parallel(p, codes_item, &d, g[W_N] * d.th * d.tw * g[W_SLICES]);
}
