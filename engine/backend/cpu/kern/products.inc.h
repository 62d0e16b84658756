// Sums of products along runs: convolutions whose filters no two points share.

typedef struct {
	float *z;
	const float *a, *b;
	const long *g, *first, *runs;
} products_job;

// g: sizes of three outer axes, rows and their length, then strides of z along the first
// two, of a and of b along all three.
static void products_item(void *v, long item) {
	const products_job *j = v;
	const long *g = j->g;
	long row = item % g[3], n = item / g[3] / g[1], m = item / g[3] % g[1];
	float *z = j->z + n * g[5] + m * g[6];
	memset(z + row * g[4], 0, g[4] * sizeof *z);
	for (long r = 0; r < g[2]; r++) {
		const float *a = j->a + n * g[7] + m * g[8] + r * g[9];
		const float *b = j->b + n * g[10] + m * g[11] + r * g[12];
		for (const long *k = j->runs + 4 * j->first[row]; k < j->runs + 4 * j->first[row + 1]; k += 4) {
			float *to = z + k[0];
			const float *x = a + k[1], *y = b + k[2];
			EACH(i, 0, k[3]) to[i] += x[i] * y[i];
		}
	}
}

// z = the sum over the third outer axis of a b along the runs of each row of z; a row is
// one item, so the order of sums does not depend on the threads.
static void k_products(ens_pool *p, float *z, const float *a, const float *b, const long *g, const long *first, const long *runs) {
	products_job j = {z, a, b, g, first, runs};
	long rows = g[0] * g[1] * g[3];
	ens_parallel(rows * g[2] * g[4] < CHUNK ? 0 : p, products_item, &j, rows);
}
