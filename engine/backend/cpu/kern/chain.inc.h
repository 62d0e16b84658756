// Chains of elementwise functions in one sweep: strips of the operands pass
// through all links of the chain before the next strip, so that results in
// between stay in the first cache. A link is the same loop as the function alone.

enum { LINK_STRIP = 512 };

typedef struct {
	char *y;
	ens_operands x;
	const ens_program *c;
} chain_job;

// chain_rows writes n values from lo of the result on as an operand that is
// stretched along some axes gives them. The last step is 0 or 1.
static void chain_rows(float *buf, const ens_access *a, const float *x, long lo, long n) {
	long at[ENS_CHAIN_AXES], last = a->axes - 1, len = a->d[last], col = lo % len, row = lo / len;
	for (long k = last - 1; k >= 0; k--) {
		at[k] = row % a->d[k];
		row /= a->d[k];
		x += at[k] * a->step[k];
	}
	for (;;) {
		long m = MIN(len - col, n);
		if (!a->step[last]) {
			float v = *x;
			EACH(i, 0, m) buf[i] = v;
		} else if (m == CELL)
			put_cell(buf, 0, get_cell(x + col, 0, 0), 0);
		else
			EACH(i, 0, m) buf[i] = x[col + i];
		buf += m;
		n -= m;
		col = 0;
		if (!n) return;
		for (long k = last - 1;; k--) {
			x += a->step[k];
			if (++at[k] < a->d[k]) break;
			x -= at[k] * a->step[k];
			at[k] = 0;
		}
	}
}

// chain_operand gives n values of an operand from lo of the result on: in place
// if they lie there as float32, else in buf.
static const float *chain_operand(const ens_access *a, const void *x, long lo, long n, float *buf) {
	if (a->axes) {
		chain_rows(buf, a, x, lo, n);
		return buf;
	}
	if (!a->b16) return (const float *)x + lo;
	EACH(i, 0, n) buf[i] = get(x, lo + i, 1);
	return buf;
}

// chain_link is one function over a strip. The result may be an argument.
static void chain_link(const ens_link *l, float *y, const float *a, const float *b, const float *c, long n) {
	float s = l->scale, t = l->shift;
	switch (l->f) {
		BINARY_CASES(EACH(i, 0, n), a[i], b[i], y[i])
		UNARY_CASES(ENS_CHAIN_UNARY, EACH(i, 0, n), a[i], y[i])
		GRAD_CASES(ENS_CHAIN_GRAD, EACH(i, 0, n), a[i], a[i], b[i], y[i])
	case ENS_CHAIN_AFFINE: EACH(i, 0, n) y[i] = s * a[i] + t; break;
	case ENS_CHAIN_SAFE_DIV: EACH(i, 0, n) y[i] = b[i] == 0 ? 0 : a[i] / b[i]; break;
	case ENS_CHAIN_CRPS:
	case ENS_CHAIN_CRPS_DMU:
	case ENS_CHAIN_CRPS_DSIGMA:
		for (long i = 0; i < n; i += CRPS_STRIP)
			crps_strip(l->f == ENS_CHAIN_CRPS ? y + i : 0, l->f == ENS_CHAIN_CRPS_DMU ? y + i : 0,
					l->f == ENS_CHAIN_CRPS_DSIGMA ? y + i : 0, 0, a + i, b + i, c + i, MIN(CRPS_STRIP, n - i));
		break;
	}
}

// clear_padding sets the padding lanes of n values from lo on to zero: a function of zeros and of
// a NaN or infinity that all channels share may not be zero.
static void clear_padding(const long *padded, float *y, long lo, long n) {
	for (long i = 0; i < n; i += CELL)
		if ((lo + i) / (padded[0] * CELL) % padded[1] == padded[1] - 1) memset(y + i + padded[2], 0, (CELL - padded[2]) * sizeof *y);
}

static void chain_item(void *v, long item) {
	const chain_job *j = v;
	const ens_program *c = j->c;
	float reg[ENS_CHAIN_LINKS][LINK_STRIP] __attribute__((aligned(64))), buf[3][LINK_STRIP] __attribute__((aligned(64)));
	long hi = MIN((item + 1) * CHUNK, c->n);
	for (long lo = item * CHUNK; lo < hi; lo += LINK_STRIP) {
		long n = MIN(LINK_STRIP, hi - lo);
		for (int k = 0; k < c->links; k++) {
			const ens_link *l = c->link + k;
			const float *arg[3] = {0};
			for (int q = 0; q < 3 && l->arg[q] != ENS_CHAIN_NONE; q++) {
				int from = l->arg[q];
				arg[q] = from >= 0 ? reg[from] : chain_operand(c->in - 1 - from, j->x.x[-1 - from], lo, n, buf[q]);
			}
			float *y = k == c->links - 1 && !c->b16 ? (float *)j->y + lo : reg[l->to];
			chain_link(l, y, arg[0], arg[1], arg[2], n);
			if (k == c->links - 1 && c->padded[2]) clear_padding(c->padded, y, lo, n);
			if (k == c->links - 1 && c->b16) EACH(i, 0, n) put(j->y, lo + i, y[i], 1);
		}
	}
}

// y = the last link of c over the operands x; see ens_program.
static void k_chain(ens_pool *p, void *y, ens_operands x, const ens_program *c) {
	chain_job j = {y, x, c};
	ens_parallel(p, chain_item, &j, pieces(c->n));
}
