// Dropout: element i of the value is kept or not by value i of a SplitMix64
// stream, wherever it lies in memory. Package rng is the definition.

typedef struct {
	void *y;
	const void *x;
	uint64_t key, below; // dropped if the upper 53 bits are below
	float keep;
	long n, c, s; // plain: n elements; blocked: n cells of c channels, s in each
} drop_job;

#define GOLDEN 0x9e3779b97f4a7c15u

// drop_mask sets all bits of the values of the stream at z, z+step, ... that stay.
INLINE void drop_mask(uint32_t m[CELL], uint64_t z, uint64_t step, uint64_t below) {
	uint64_t r[CELL];
	for (int l = 0; l < CELL; l++) r[l] = z + l * step;
	for (int l = 0; l < CELL; l++) r[l] = (r[l] ^ r[l] >> 30) * 0xbf58476d1ce4e5b9u;
	for (int l = 0; l < CELL; l++) r[l] = (r[l] ^ r[l] >> 27) * 0x94d049bb133111ebu;
	for (int l = 0; l < CELL; l++) r[l] = (r[l] ^ r[l] >> 31) >> 11;
	for (int l = 0; l < CELL; l++) m[l] = (int64_t)(r[l] - below) >> 63; // both have 53 bits
	for (int l = 0; l < CELL; l++) m[l] = ~m[l];
}

// drop_cell is x keep where the stream keeps it.
INLINE cell drop_cell(const drop_job *j, cell x, uint64_t z, uint64_t step) {
	ivec m[CV];
	drop_mask((uint32_t *)m, z, step, j->below);
	EACH_VEC(q) x.v[q] = (vec)((ivec)(x.v[q] * j->keep) & m[q]);
	return x;
}

static void drop_item(void *v, long item) {
	const drop_job *j = v;
	const float *x = j->x;
	float *y = j->y;
	long i = item * CHUNK, hi = MIN(i + CHUNK, j->n);
	for (; i + CELL <= hi; i += CELL) put_cell(y, i, drop_cell(j, get_cell(x, i, 0), j->key + (i + 1) * GOLDEN, GOLDEN), 0);
	if (i < hi) {
		float last[CELL] = {0};
		memcpy(last, x + i, (hi - i) * sizeof *x);
		put_cell(last, 0, drop_cell(j, get_cell(last, 0, 0), j->key + (i + 1) * GOLDEN, GOLDEN), 0);
		memcpy(y + i, last, (hi - i) * sizeof *y);
	}
}

// y[i] = x[i] keep, or 0 where value i of the stream key is below.
static void k_dropout(ens_pool *p, float *y, const float *x, unsigned long key, unsigned long below, float keep, long n) {
	drop_job j = {y, x, key, below, keep, n, 0, 0};
	ens_parallel(p, drop_item, &j, pieces(n));
}

INLINE void blocked_drop_item(const drop_job *j, long item, const int b16) {
	long lo = item * SPREAD, hi = MIN(lo + SPREAD, j->n), blocks = (j->c + CELL - 1) / CELL;
	for (long i = lo; i < hi; i++) {
		long row = i / j->s, n = row / blocks, first = n * j->c + row % blocks * CELL;
		uint64_t z = j->key + (first * j->s + i % j->s + 1) * GOLDEN;
		put_cell(j->y, i * CELL, drop_cell(j, get_cell(j->x, i * CELL, b16), z, j->s * GOLDEN), b16);
	}
}
STORED(blocked_drop_item)

// The same of a blocked value [n c s]; i counts as in the plain one.
static void k_blocked_dropout(ens_pool *p, int b16, void *y, const void *x, unsigned long key, unsigned long below, float keep,
		long n, long c, long s) {
	drop_job j = {y, x, key, below, keep, n * ((c + CELL - 1) / CELL) * s, c, s};
	ens_parallel(p, PICK(blocked_drop_item, b16), &j, spreads(j.n));
}
