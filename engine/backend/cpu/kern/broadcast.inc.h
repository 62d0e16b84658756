// Loops over [outer][mid][inner] in which a second tensor is repeated along
// some axes: per channel values of [N][C][D H W] above all.

typedef struct {
	int op;
	float *y;
	const float *a, *b, *s, *t, *u;
	long outer, mid, inner, so, sm, si, rows; // rows of inner cells an item takes
} bc_job;

// bc_plan cuts outer x mid rows into pieces of about CHUNK cells.
static long bc_plan(bc_job *j) {
	long all = j->outer * j->mid;
	j->rows = MAX(1, CHUNK / MAX(1, j->inner));
	return (all + j->rows - 1) / j->rows;
}

static void broadcast_item(void *v, long item) {
	const bc_job *j = v;
	long lo = item * j->rows, hi = MIN(lo + j->rows, j->outer * j->mid), n = j->inner;
	for (long r = lo; r < hi; r++) {
		float *y = j->y + r * n;
		const float *a = j->a + r * n;
		const float *b = j->b + r / j->mid * j->so + r % j->mid * j->sm;
		if (j->si) {
			switch (j->op) { BINARY_CASES(EACH(i, 0, n), a[i], b[i], y[i]) }
		} else {
			float s = *b;
			switch (j->op) { BINARY_CASES(EACH(i, 0, n), a[i], s, y[i]) }
		}
	}
}

// y[o][m][i] = a[o][m][i] op b[o*so + m*sm + i*si], si 0 or 1.
static void k_broadcast(ens_pool *p, int op, float *y, const float *a, const float *b,
		long outer, long mid, long inner, long so, long sm, long si) {
	bc_job j = {op, y, a, b, 0, 0, 0, outer, mid, inner, so, sm, si, 0};
	long n = bc_plan(&j);
	ens_parallel(p, broadcast_item, &j, n);
}

static void affine_mid_item(void *v, long item) {
	const bc_job *j = v;
	long lo = item * j->rows, hi = MIN(lo + j->rows, j->outer * j->mid), n = j->inner;
	for (long r = lo; r < hi; r++) {
		float *y = j->y + r * n, s = j->s[r % j->mid], t = j->t[r % j->mid];
		const float *a = j->a + r * n;
		EACH(i, 0, n) y[i] = s * a[i] + t;
	}
}

// y[o][m][i] = scale[m] x[o][m][i] + shift[m]
static void k_affine_mid(ens_pool *p, float *y, const float *x, const float *scale, const float *shift,
		long outer, long mid, long inner) {
	bc_job j = {0, y, x, 0, scale, shift, 0, outer, mid, inner, 0, 0, 0, 0};
	long n = bc_plan(&j);
	ens_parallel(p, affine_mid_item, &j, n);
}

static void combine_mid_item(void *v, long item) {
	const bc_job *j = v;
	long lo = item * j->rows, hi = MIN(lo + j->rows, j->outer * j->mid), n = j->inner;
	for (long r = lo; r < hi; r++) {
		long m = r % j->mid;
		float *y = j->y + r * n, s = j->s[m], t = j->t[m], u = j->u[m];
		const float *a = j->a + r * n, *b = j->b + r * n;
		EACH(i, 0, n) y[i] = s * a[i] + t * b[i] + u;
	}
}

// dx[o][m][i] = a[m] dy[o][m][i] + b[m] x[o][m][i] + c[m]: with the right
// three coefficients the gradient of batch normalisation.
static void k_batchnorm_grad(ens_pool *p, float *dx, const float *dy, const float *x, const float *a,
		const float *b, const float *c, long outer, long mid, long inner) {
	bc_job j = {0, dx, dy, x, a, b, c, outer, mid, inner, 0, 0, 0, 0};
	long n = bc_plan(&j);
	ens_parallel(p, combine_mid_item, &j, n);
}
