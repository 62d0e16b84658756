// Attention along an axis. Lines side by side are the lanes of vectors; of each window some queries meet
// some keys at a time, and a query keeps the largest score and the sum so far: no matrix of scores is in memory.
// Source of the sums: Milakov and Gimelshein 2018, arXiv:1805.02867; of the order: Dao et al. 2022, arXiv:2205.14135.

enum { AXIS_LANES = 16, AXIS_BLOCK = 16 };
#define AXIS_EACH(l) EACH(l, 0, AXIS_LANES)

typedef struct {
	float *y;
	const float *x, *offsets, *dy;
	long blocks, per_row, row_step, point_step, width, beside, along_rows, along_points, length; // op.LineSteps
	long channels, plane, heads, per, reach, windows;
	const long *window; // first index and length of each
	long strips;
} axis_job;

// axis_lines are lines side by side: head h of a window of a block.
typedef struct {
	const axis_job *j;
	long row, point, lanes, first, lo, n, channel;
	const float *offsets;
	float scale;
} axis_lines;

static axis_lines axis_of(const axis_job *j, long item) {
	long w = item % j->windows, h = item / j->windows % j->heads;
	long strip = item / j->windows / j->heads % j->strips, block = item / j->windows / j->heads / j->strips;
	axis_lines a = {j, block / j->per_row * j->row_step, block % j->per_row * j->point_step, 0, strip * AXIS_LANES,
		j->window[2 * w], j->window[2 * w + 1], h * j->per, j->offsets + h * (2 * j->reach + 1), 1 / sqrtf(j->per)};
	a.lanes = MIN(AXIS_LANES, j->width - a.first);
	return a;
}

// axis_at is the place of element i in a field of so many channels per row, of which the head's begin at c.
static inline long axis_at(const axis_lines *a, long i, long channels, long c) {
	const axis_job *j = a->j;
	long k = a->lo + i;
	if (k >= j->length) k -= j->length;
	return ((a->row + k * j->along_rows) * channels + c) * j->plane + a->point + k * j->along_points + a->first * j->beside;
}

// axis_load takes the channels of the head of element i: part 0 to 2 of x, or dy.
static void axis_load(const axis_lines *a, float *to, const float *from, long channels, long c, long i) {
	from += axis_at(a, i, channels, c);
	long plane = a->j->plane, beside = a->j->beside;
	for (long k = 0; k < a->j->per; k++, to += AXIS_LANES, from += plane) {
		if (a->lanes < AXIS_LANES) memset(to, 0, AXIS_LANES * sizeof *to);
		if (beside == 1) memcpy(to, from, a->lanes * sizeof *to);
		else for (long l = 0; l < a->lanes; l++) to[l] = from[l * beside];
	}
}

static inline void axis_part(const axis_lines *a, float *to, long part, long i) {
	axis_load(a, to, a->j->x, 3 * a->j->channels, part * a->j->channels + a->channel, i);
}

static inline void axis_dy(const axis_lines *a, float *to, long i) {
	axis_load(a, to, a->j->dy, a->j->channels, a->channel, i);
}

// axis_store writes, or adds to, the channels of the head of element i.
static void axis_store(const axis_lines *a, const float *from, long channels, long c, long i, int add) {
	float *to = a->j->y + axis_at(a, i, channels, c);
	long plane = a->j->plane, beside = a->j->beside;
	for (long k = 0; k < a->j->per; k++, from += AXIS_LANES, to += plane)
		for (long l = 0; l < a->lanes; l++) to[l * beside] = add ? to[l * beside] + from[l] : from[l];
}

// axis_dots are the products of q with k of a head.
static inline void axis_dots(float *restrict s, const float *q, const float *k, long per) {
	float sum[AXIS_LANES];
	AXIS_EACH(l) sum[l] = 0;
	for (long c = 0; c < per; c++) AXIS_EACH(l) sum[l] += q[c * AXIS_LANES + l] * k[c * AXIS_LANES + l];
	AXIS_EACH(l) s[l] = sum[l];
}

// axis_scores are those of query i, in q, for m keys from the one at on.
static inline void axis_scores(const axis_lines *a, float *restrict s, const float *q, const float *k, long i, long at, long m) {
	long per = a->j->per, reach = a->j->reach;
	for (long t = 0; t < m; t++) {
		long d = at + t - i;
		d = d < -reach ? -reach : d > reach ? reach : d;
		float bias = a->offsets[d + reach], scale = a->scale;
		axis_dots(s + t * AXIS_LANES, q, k + t * per * AXIS_LANES, per);
		AXIS_EACH(l) s[t * AXIS_LANES + l] = s[t * AXIS_LANES + l] * scale + bias;
	}
}

static inline void axis_exp(float *restrict e, const float *s, const float *top) {
	AXIS_EACH(l) e[l] = exp_d((double)s[l] - top[l]);
}

// axis_top raises the largest score so far, and gives the factor by which sums shrink.
static inline void axis_top(float *restrict top, float *restrict shrink, const float *s, long m) {
	float old[AXIS_LANES];
	AXIS_EACH(l) old[l] = top[l];
	for (long t = 0; t < m; t++) AXIS_EACH(l) top[l] = s[t * AXIS_LANES + l] > top[l] ? s[t * AXIS_LANES + l] : top[l];
	axis_exp(shrink, old, top);
}

static void axis_item(void *v, long item) {
	axis_lines a = axis_of(v, item);
	long per = a.j->per, cell = per * AXIS_LANES;
	float q[AXIS_BLOCK * cell], o[AXIS_BLOCK * cell], k[AXIS_BLOCK * cell], x[AXIS_BLOCK * cell];
	float top[AXIS_BLOCK][AXIS_LANES], sum[AXIS_BLOCK][AXIS_LANES], s[AXIS_BLOCK * AXIS_LANES], e[AXIS_LANES];
	for (long i = 0; i < a.n; i += AXIS_BLOCK) {
		long queries = MIN(AXIS_BLOCK, a.n - i);
		for (long r = 0; r < queries; r++) {
			axis_part(&a, q + r * cell, 0, i + r);
			AXIS_EACH(l) top[r][l] = -3e38f, sum[r][l] = 0;
		}
		memset(o, 0, queries * cell * sizeof *o);
		for (long at = 0; at < a.n; at += AXIS_BLOCK) {
			long keys = MIN(AXIS_BLOCK, a.n - at);
			for (long t = 0; t < keys; t++) axis_part(&a, k + t * cell, 1, at + t), axis_part(&a, x + t * cell, 2, at + t);
			for (long r = 0; r < queries; r++) {
				float *out = o + r * cell;
				axis_scores(&a, s, q + r * cell, k, i + r, at, keys);
				axis_top(top[r], e, s, keys);
				AXIS_EACH(l) sum[r][l] *= e[l];
				for (long c = 0; c < per; c++) AXIS_EACH(l) out[c * AXIS_LANES + l] *= e[l];
				for (long t = 0; t < keys; t++) {
					const float *value = x + t * cell;
					axis_exp(e, s + t * AXIS_LANES, top[r]);
					AXIS_EACH(l) sum[r][l] += e[l];
					for (long c = 0; c < per; c++) AXIS_EACH(l) out[c * AXIS_LANES + l] += e[l] * value[c * AXIS_LANES + l];
				}
			}
		}
		for (long r = 0; r < queries; r++) {
			float *out = o + r * cell;
			for (long c = 0; c < per; c++) AXIS_EACH(l) out[c * AXIS_LANES + l] /= sum[r][l];
			axis_store(&a, out, a.j->channels, a.channel, i + r, 0);
		}
	}
}

// axis_softmax gives of every query of a window the largest score, one over the sum, and the mean of the derivatives of
// the loss by its weights.
static void axis_softmax(const axis_lines *a, float (*top)[AXIS_LANES], float (*part)[AXIS_LANES], float (*mean)[AXIS_LANES]) {
	long per = a->j->per, cell = per * AXIS_LANES;
	float q[cell], dy[cell], k[AXIS_BLOCK * cell], x[AXIS_BLOCK * cell], s[AXIS_BLOCK * AXIS_LANES], e[AXIS_LANES], d[AXIS_LANES];
	for (long i = 0; i < a->n; i++) AXIS_EACH(l) top[i][l] = -3e38f, part[i][l] = 0, mean[i][l] = 0;
	for (long at = 0; at < a->n; at += AXIS_BLOCK) {
		long keys = MIN(AXIS_BLOCK, a->n - at);
		for (long t = 0; t < keys; t++) axis_part(a, k + t * cell, 1, at + t), axis_part(a, x + t * cell, 2, at + t);
		for (long i = 0; i < a->n; i++) {
			axis_part(a, q, 0, i);
			axis_dy(a, dy, i);
			axis_scores(a, s, q, k, i, at, keys);
			axis_top(top[i], e, s, keys);
			AXIS_EACH(l) part[i][l] *= e[l], mean[i][l] *= e[l];
			for (long t = 0; t < keys; t++) {
				axis_exp(e, s + t * AXIS_LANES, top[i]);
				axis_dots(d, dy, x + t * cell, per);
				AXIS_EACH(l) part[i][l] += e[l], mean[i][l] += e[l] * d[l];
			}
		}
	}
	for (long i = 0; i < a->n; i++) AXIS_EACH(l) part[i][l] = 1 / part[i][l], mean[i][l] *= part[i][l];
}

static void axis_grad_item(void *v, long item) {
	axis_lines a = axis_of(v, item);
	long per = a.j->per, cell = per * AXIS_LANES, wide = 3 * a.j->channels, third = a.j->channels;
	float top[a.n][AXIS_LANES], part[a.n][AXIS_LANES], mean[a.n][AXIS_LANES];
	float q[cell], dy[cell], dq[cell], k[AXIS_BLOCK * cell], x[AXIS_BLOCK * cell], dk[AXIS_BLOCK * cell], dx[AXIS_BLOCK * cell];
	float s[AXIS_BLOCK * AXIS_LANES], w[AXIS_LANES], d[AXIS_LANES];
	axis_softmax(&a, top, part, mean);
	for (long at = 0; at < a.n; at += AXIS_BLOCK) {
		long keys = MIN(AXIS_BLOCK, a.n - at);
		for (long t = 0; t < keys; t++) axis_part(&a, k + t * cell, 1, at + t), axis_part(&a, x + t * cell, 2, at + t);
		memset(dk, 0, keys * cell * sizeof *dk);
		memset(dx, 0, keys * cell * sizeof *dx);
		for (long i = 0; i < a.n; i++) {
			axis_part(&a, q, 0, i);
			axis_dy(&a, dy, i);
			axis_scores(&a, s, q, k, i, at, keys);
			memset(dq, 0, cell * sizeof *dq);
			for (long t = 0; t < keys; t++) {
				const float *key = k + t * cell;
				float *dkey = dk + t * cell, *dvalue = dx + t * cell;
				axis_exp(w, s + t * AXIS_LANES, top[i]);
				axis_dots(d, dy, x + t * cell, per);
				AXIS_EACH(l) w[l] *= part[i][l], d[l] = w[l] * (d[l] - mean[i][l]) * a.scale;
				for (long c = 0; c < cell; c += AXIS_LANES) AXIS_EACH(l) {
					dq[c + l] += d[l] * key[c + l];
					dkey[c + l] += d[l] * q[c + l];
					dvalue[c + l] += w[l] * dy[c + l];
				}
			}
			axis_store(&a, dq, wide, a.channel, i, at > 0);
		}
		for (long t = 0; t < keys; t++) {
			axis_store(&a, dk + t * cell, wide, third + a.channel, at + t, 0);
			axis_store(&a, dx + t * cell, wide, 2 * third + a.channel, at + t, 0);
		}
	}
}

// axis_offsets_item adds up over all lines of a head, in their order.
static void axis_offsets_item(void *v, long head) {
	axis_job j = *(const axis_job *)v;
	long per = j.per, cell = per * AXIS_LANES, sums = 2 * j.reach + 1;
	double total[sums];
	memset(total, 0, sizeof total);
	for (long block = 0; block < j.blocks * j.strips; block++)
		for (long f = 0; f < j.windows; f++) {
			axis_lines a = axis_of(&j, (block * j.heads + head) * j.windows + f);
			float top[a.n][AXIS_LANES], part[a.n][AXIS_LANES], mean[a.n][AXIS_LANES];
			float q[cell], dy[cell], k[AXIS_BLOCK * cell], x[AXIS_BLOCK * cell], s[AXIS_BLOCK * AXIS_LANES], w[AXIS_LANES], d[AXIS_LANES];
			axis_softmax(&a, top, part, mean);
			for (long at = 0; at < a.n; at += AXIS_BLOCK) {
				long keys = MIN(AXIS_BLOCK, a.n - at);
				for (long t = 0; t < keys; t++) axis_part(&a, k + t * cell, 1, at + t), axis_part(&a, x + t * cell, 2, at + t);
				for (long i = 0; i < a.n; i++) {
					axis_part(&a, q, 0, i);
					axis_dy(&a, dy, i);
					axis_scores(&a, s, q, k, i, at, keys);
					for (long t = 0; t < keys; t++) {
						long o = at + t - i;
						o = o < -j.reach ? -j.reach : o > j.reach ? j.reach : o;
						axis_exp(w, s + t * AXIS_LANES, top[i]);
						axis_dots(d, dy, x + t * cell, per);
						AXIS_EACH(l) d[l] = w[l] * part[i][l] * (d[l] - mean[i][l]);
						for (long l = 0; l < a.lanes; l++) total[o + j.reach] += d[l];
					}
				}
			}
		}
	for (long o = 0; o < sums; o++) j.y[head * sums + o] = total[o];
}

// what is 0: y of x [rows 3·channels plane] and offsets; 1, 2: gradients by x and by offsets.
static void k_axis(ens_pool *p, int what, float *y, const float *x, const float *offsets, const float *dy, const long *g, const long *window) {
	axis_job j = {y, x, offsets, dy, g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11], g[9] / g[11], g[12], g[13], window, 0};
	j.strips = (j.width + AXIS_LANES - 1) / AXIS_LANES;
	if (what == 2) {
		ens_parallel(p, axis_offsets_item, &j, j.heads);
		return;
	}
	long items = j.blocks * j.strips * j.heads * j.windows;
	ens_parallel(j.blocks * j.width * j.length * j.channels < 4096 ? 0 : p, what ? axis_grad_item : axis_item, &j, items);
}
