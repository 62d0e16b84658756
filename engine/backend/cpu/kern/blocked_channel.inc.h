// Per channel values of a blocked tensor: sums, moments, and the sweeps of
// batch normalisation. Sums are taken in double, in pieces whose number is
// fixed by the shape alone, and added in order.

typedef float halfvec __attribute__((vector_size(VL * 2), aligned(4), may_alias));
typedef double dvec __attribute__((vector_size(VL * 4)));
typedef struct { dvec v[2 * CV]; } dcell;
#define EACH_DOUBLE(q) UNROLL for (int q = 0; q < 2 * CV; q++)

INLINE dcell widen(cell c) {
	dcell d;
	EACH_VEC(q) {
#if VL == 16 && defined(__AVX512DQ__)
		d.v[2 * q] = (dvec)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)c.v[q]));
		d.v[2 * q + 1] = (dvec)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)c.v[q], 1));
#elif VL == 8 && defined(__AVX2__)
		d.v[2 * q] = (dvec)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)c.v[q]));
		d.v[2 * q + 1] = (dvec)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)c.v[q], 1));
#else
		union { vec whole; halfvec part[2]; } u = {c.v[q]};
		d.v[2 * q] = __builtin_convertvector(u.part[0], dvec);
		d.v[2 * q + 1] = __builtin_convertvector(u.part[1], dvec);
#endif
	}
	return d;
}

// A gate per channel: values count where scale f + shift > 0, for a field f.
typedef struct { cell scale, shift; } gate_lanes;

INLINE gate_lanes gate_of(const float *scale, const float *shift, long block, long channels) {
	float a[CELL], b[CELL];
	block_lanes(a, scale, block, channels);
	block_lanes(b, shift, block, channels);
	return (gate_lanes){get_cell(a, 0, 0), get_cell(b, 0, 0)};
}

// gated is x where the gate of f is open, and 0 elsewhere. It computes the gate as
// k_blocked_affine computes the result of the normalisation.
INLINE cell gated(const gate_lanes *g, cell f, cell x) {
	EACH_VEC(q) f.v[q] = g->scale.v[q] * f.v[q] + g->shift.v[q];
	return cell_where(f, x);
}

typedef struct {
	const void *x, *z;
	const float *scale, *offset; // gate of z, per channel; null: all counts
	long channels;
	const double *shift; // moments: per channel of all blocks, in place of z
	long n, s, blocks, from, some, parts, len; // blocks from.. and how many of them; parts of len cells each
	double *sum, *dot; // [some][parts][16]
} channel_job;

// What is summed: x, (x-shift) and its square, x and x z.
enum { ALONE, ABOUT, WITH };

// channel_part adds up a part of a block lane by lane. The argument what is constant after inlining.
INLINE void channel_part(const channel_job *j, long item, const int what, int gate, const int b16) {
	long b = j->from + item / j->parts, lo = item % j->parts * j->len, end = MIN(lo + j->len, j->n * j->s);
	dcell sum[2] = {0}, dot[2] = {0}, shift = {0}; // even and odd cells
	gate_lanes open;
	if (gate) open = gate_of(j->scale, j->offset, b, j->channels);
	if (what == ABOUT) memcpy(&shift, j->shift + item / j->parts * CELL, sizeof shift);
	while (lo < end) {
		long n = lo / j->s, cells = MIN(end, (n + 1) * j->s) - lo;
		long from = ((n * j->blocks + b) * j->s + lo % j->s) * CELL;
		for (long i = 0; i < cells; i += 2)
			UNROLL for (int odd = 0; odd < 2; odd++) {
				if (i + odd == cells) break;
				long k = from + (i + odd) * CELL;
				cell x = get_cell(j->x, k, b16), z = x;
				if (what == WITH) z = get_cell(j->z, k, b16);
				if (gate) x = gated(&open, z, x);
				dcell d = widen(x), e = d;
				if (what == ABOUT) EACH_DOUBLE(q) e.v[q] = d.v[q] -= shift.v[q];
				if (what == WITH) e = widen(z);
				EACH_DOUBLE(q) sum[odd].v[q] += d.v[q];
				if (what != ALONE) EACH_DOUBLE(q) dot[odd].v[q] += d.v[q] * e.v[q];
			}
		lo += cells;
	}
	EACH_DOUBLE(q) {
		sum[0].v[q] += sum[1].v[q];
		dot[0].v[q] += dot[1].v[q];
	}
	memcpy(j->sum + item * CELL, sum, sizeof *sum);
	if (what != ALONE) memcpy(j->dot + item * CELL, dot, sizeof *dot);
}

INLINE void channel_item(const channel_job *j, long item, const int b16) {
	if (j->shift)
		channel_part(j, item, ABOUT, 0, b16);
	else if (!j->dot)
		channel_part(j, item, ALONE, 0, b16);
	else if (!j->scale)
		channel_part(j, item, WITH, 0, b16);
	else
		channel_part(j, item, WITH, 1, b16);
}
STORED(channel_item)

// channel_total adds the parts of each block in order and leaves the totals in
// the first places.
static void channel_total(const channel_job *j, double *part) {
	for (long b = 0; b < j->some; b++)
		for (long l = 0; l < CELL; l++) {
			double s = 0;
			for (long i = b * j->parts; i < (b + 1) * j->parts; i++) s += part[i * CELL + l];
			part[b * CELL + l] = s;
		}
}

// channel_sums runs the job for at most PARTS blocks.
static void channel_sums(ens_pool *p, int b16, channel_job *j) {
	long cells = j->n * j->s;
	j->parts = MAX(1, MIN(PARTS / j->some, cells / 256));
	j->len = (cells + j->parts - 1) / j->parts;
	ens_parallel(cells * j->some < 256 ? 0 : p, PICK(channel_item, b16), j, j->some * j->parts);
	channel_total(j, j->sum);
	if (j->dot) channel_total(j, j->dot);
}

// sum[c] = sum of x, dot[c] = sum of x z over n and s, x counting where scale[c] z +
// shift[c] > 0; dot with z, and scale with shift, may be null.
static void k_blocked_sums(ens_pool *p, int b16, float *sum, float *dot, const void *x, const void *z, const float *scale,
		const float *shift, long n, long c, long s) {
	double part[PARTS * CELL], product[PARTS * CELL];
	channel_job j = {.x = x, .z = z, .scale = scale, .offset = shift, .channels = c, .n = n, .s = s, .blocks = (c + CELL - 1) / CELL, .sum = part,
			.dot = dot ? product : 0};
	for (; j.from < j.blocks; j.from += j.some) {
		j.some = MIN(PARTS, j.blocks - j.from);
		channel_sums(p, b16, &j);
		for (long k = 0; k < MIN(j.some * CELL, c - j.from * CELL); k++) {
			sum[j.from * CELL + k] = j.sum[k];
			if (dot) dot[j.from * CELL + k] = j.dot[k];
		}
	}
}

// mean[c] and variance[c] (divisor: the count) over n and s in one sweep about
// the channel's first value. That value is at most sqrt(count) deviations from
// the mean, so the cancellation costs count 2^-53 of the variance at most.
static void k_blocked_moments(ens_pool *p, int b16, float *mean, float *var, const void *x, long n, long c, long s) {
	double shift[PARTS * CELL], part[PARTS * CELL], product[PARTS * CELL], count = (double)n * s;
	channel_job j = {.x = x, .shift = shift, .n = n, .s = s, .blocks = (c + CELL - 1) / CELL, .sum = part, .dot = product};
	for (; j.from < j.blocks; j.from += j.some) {
		j.some = MIN(PARTS, j.blocks - j.from);
		long here = j.some * CELL;
		for (long k = 0; k < here; k++) {
			double first = get(x, (j.from + k / CELL) * s * CELL + k % CELL, b16);
			shift[k] = first - first == 0 ? first : 0;
		}
		channel_sums(p, b16, &j);
		for (long k = 0; k < MIN(here, c - j.from * CELL); k++) {
			double e = j.sum[k] / count, v = j.dot[k] / count - e * e;
			mean[j.from * CELL + k] = shift[k] + e;
			var[j.from * CELL + k] = v < 0 ? 0 : v;
		}
	}
}

typedef struct {
	void *z;
	const void *x, *y;
	const float *scale, *shift; // gate of y, per channel; null: all counts
	const float *a, *b, *c; // per channel
	int relu;
	long cells, channels, s;
} norm_job;

// z = a x + b y + c, x counting where the gate of y is open; or the ReLU of it. Which of
// them are there is constant after inlining.
INLINE void norm_cells(const norm_job *j, long lo, long hi, long block, int y, int gate, int relu, const int b16) {
	float a[CELL], b[CELL], c[CELL];
	block_lanes(a, j->a, block, j->channels);
	block_lanes(c, j->c, block, j->channels);
	if (y) block_lanes(b, j->b, block, j->channels);
	gate_lanes open;
	if (gate) open = gate_of(j->scale, j->shift, block, j->channels);
	cell ca = get_cell(a, 0, 0), cb = y ? get_cell(b, 0, 0) : ca, cc = get_cell(c, 0, 0);
	for (long i = lo * CELL; i < hi * CELL; i += CELL) {
		cell x = get_cell(j->x, i, b16), t = x;
		if (y) t = get_cell(j->y, i, b16);
		if (gate) x = gated(&open, t, x);
		EACH_VEC(q) x.v[q] = ca.v[q] * x.v[q] + cc.v[q];
		if (y) EACH_VEC(q) x.v[q] += cb.v[q] * t.v[q];
		if (relu) EACH_VEC(q) x.v[q] = pick(above((vec){0}, x.v[q]), (vec){0}, x.v[q]); // keeps NaN
		put_cell(j->z, i, x, b16);
	}
}

INLINE void norm_item(const norm_job *j, long item, const int b16) {
	long blocks = (j->channels + CELL - 1) / CELL, lo = item * SPREAD, end = MIN(lo + SPREAD, j->cells);
	while (lo < end) {
		long row = lo / j->s, hi = MIN(end, (row + 1) * j->s);
		if (j->y && j->scale)
			norm_cells(j, lo, hi, row % blocks, 1, 1, 0, b16);
		else if (j->y)
			norm_cells(j, lo, hi, row % blocks, 1, 0, 0, b16);
		else if (j->relu)
			norm_cells(j, lo, hi, row % blocks, 0, 0, 1, b16);
		else
			norm_cells(j, lo, hi, row % blocks, 0, 0, 0, b16);
		lo = hi;
	}
}
STORED(norm_item)

// y = scale[c] x + shift[c], or the ReLU of it.
static void k_blocked_affine(ens_pool *p, int b16, void *y, const void *x, const float *scale, const float *shift, int relu,
		long n, long c, long s) {
	norm_job j = {y, x, 0, 0, 0, scale, 0, shift, relu, n * ((c + CELL - 1) / CELL) * s, c, s};
	ens_parallel(p, PICK(norm_item, b16), &j, spreads(j.cells));
}

// z = a[c] x + b[c] y + c[c], x counting where scale[c] y + shift[c] > 0; scale and shift may be null.
static void k_blocked_combine(ens_pool *p, int b16, void *z, const void *x, const void *y, const float *scale,
		const float *shift, const float *a, const float *b, const float *c, long n, long channels, long s) {
	norm_job j = {z, x, y, scale, shift, a, b, c, 0, n * ((channels + CELL - 1) / CELL) * s, channels, s};
	ens_parallel(p, PICK(norm_item, b16), &j, spreads(j.cells));
}
