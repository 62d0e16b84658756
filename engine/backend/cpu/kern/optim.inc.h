// Optimisers: one sweep over the parameters of a flat arena, cut into pieces of
// at most CHUNK that each lie in one tensor. g, m and v hold the gradients and moments of
// these pieces alone. With g' = gscale g, and decay and
// ratio of the tensor:
//   sgd       d = g' + decay w      m = mu m + d      w -= lr m
//   nesterov  d, m as sgd           w -= lr (d + mu m)
//   adam      d = g' + decay w      m = b1 m + (1-b1) d      v = b2 v + (1-b2) d^2
//             w -= lr (m/c1) / (sqrt(v/c2) + eps)
//   adamw     w -= lr decay w first, then adam with d = g'
//   lars      m = mu m + lr ratio (g' + decay w)      w -= m
//   lamb      m, v as adam with d = g'      u = (m/c1) / (sqrt(v/c2) + eps) + decay w
//             w -= lr ratio u
// lamb needs |u| for its ratio and so two sweeps: opt_moments, then opt_move.
// Where there is an e, last e += blend (w - e), while the piece is in the cache.
// c1 = 1-b1^t and c2 = 1-b2^t come from the caller; sources at optim.Kind.

typedef struct {
	const ens_piece *piece;
	const ens_rule *r;
	const float *decay, *ratio, *g;
	float *w, *m, *v, *e;
	double *part;
} opt_job;

// direction is the step of Adam before its rate.
static inline float direction(float m, float v, float r1, float r2, float eps) {
	return m * r1 / (sqrtf(v) * r2 + eps);
}

static void adam_run(const ens_rule *r, float *w, float *m, float *v, const float *g, long n, float decay) {
	float b1 = r->beta1, b2 = r->beta2, a1 = r->rest1, a2 = r->rest2, eps = r->eps, gs = r->gscale, lr = r->lr;
	float l2 = r->rule == ENS_ADAM ? decay : 0, keep = r->rule == ENS_ADAM ? 1 : 1 - lr * decay;
	float r1 = 1 / r->c1, r2 = 1 / sqrtf(r->c2);
	EACH(i, 0, n) {
		float d = gs * g[i] + l2 * w[i];
		m[i] = b1 * m[i] + a1 * d;
		v[i] = b2 * v[i] + a2 * d * d;
		w[i] = keep * w[i] - lr * direction(m[i], v[i], r1, r2, eps);
	}
}

static void opt_move_item(void *x, long item) {
	const opt_job *j = x;
	const ens_rule *r = j->r;
	long lo = j->piece[item].lo, n = j->piece[item].hi - lo, tensor = j->piece[item].tensor, at = j->piece[item].at;
	float *w = j->w + lo, *m = j->m + at, *v = j->v ? j->v + at : 0;
	const float *g = j->g + at;
	float decay = j->decay[tensor], mu = r->momentum, gs = r->gscale, lr = r->lr;
	float scaled = lr * j->ratio[tensor];
	float r1 = 1 / r->c1, r2 = 1 / sqrtf(r->c2), eps = r->eps, blend = r->blend;
	switch (r->rule) {
	case ENS_SGD:
		EACH(i, 0, n) {
			m[i] = mu * m[i] + (gs * g[i] + decay * w[i]);
			w[i] -= lr * m[i];
		}
		break;
	case ENS_NESTEROV:
		EACH(i, 0, n) {
			float d = gs * g[i] + decay * w[i];
			m[i] = mu * m[i] + d;
			w[i] -= lr * (d + mu * m[i]);
		}
		break;
	case ENS_ADAM:
	case ENS_ADAMW:
		adam_run(r, w, m, v, g, n, decay);
		break;
	case ENS_LARS:
		EACH(i, 0, n) {
			m[i] = mu * m[i] + scaled * (gs * g[i] + decay * w[i]);
			w[i] -= m[i];
		}
		break;
	case ENS_LAMB:
		EACH(i, 0, n) w[i] -= scaled * (direction(m[i], v[i], r1, r2, eps) + decay * w[i]);
		break;
	}
	if (!j->e) return;
	float *e = j->e + lo;
	if (blend == 1) {
		memcpy(e, w, n * sizeof *e);
		return;
	}
	EACH(i, 0, n) e[i] += blend * (w[i] - e[i]);
}

static void k_opt_move(ens_pool *p, const ens_piece *piece, long n, const ens_rule *r, const float *decay, const float *ratio,
		float *w, float *m, float *v, float *e, const float *g) {
	opt_job j = {.piece = piece, .r = r, .decay = decay, .ratio = ratio, .g = g, .w = w, .m = m, .v = v, .e = e};
	ens_parallel(p, opt_move_item, &j, n);
}

static void opt_moments_item(void *x, long item) {
	const opt_job *j = x;
	const ens_rule *r = j->r;
	long lo = j->piece[item].lo, len = j->piece[item].hi - lo, start = j->piece[item].at;
	float *m = j->m + start, *v = j->v + start, u[512];
	const float *w = j->w + lo, *g = j->g + start;
	float b1 = r->beta1, b2 = r->beta2, a1 = r->rest1, a2 = r->rest2, eps = r->eps, gs = r->gscale, decay = j->decay[j->piece[item].tensor];
	float r1 = 1 / r->c1, r2 = 1 / sqrtf(r->c2);
	double sum = 0;
	for (long at = 0; at < len; at += 512) {
		long n = MIN(512, len - at);
		EACH(k, 0, n) {
			float d = gs * g[at + k];
			m[at + k] = b1 * m[at + k] + a1 * d;
			v[at + k] = b2 * v[at + k] + a2 * d * d;
			u[k] = direction(m[at + k], v[at + k], r1, r2, eps) + decay * w[at + k];
		}
		sum += dot_run(u, u, n);
	}
	j->part[2 * item] = dot_run(w, w, len);
	j->part[2 * item + 1] = sum;
}

// The moments of lamb; part gets the sums of w^2 and u^2 of each piece.
static void k_opt_moments(ens_pool *p, double *part, const ens_piece *piece, long n, const ens_rule *r, const float *decay,
		const float *w, float *m, float *v, const float *g) {
	opt_job j = {.piece = piece, .r = r, .decay = decay, .g = g, .w = (float *)w, .m = m, .v = v, .part = part};
	ens_parallel(p, opt_moments_item, &j, n);
}

static void opt_squares_item(void *x, long item) {
	const opt_job *j = x;
	long lo = j->piece[item].lo, n = j->piece[item].hi - lo;
	const float *g = j->g + j->piece[item].at, *w = j->w + lo;
	j->part[2 * item] = j->w ? dot_run(w, w, n) : 0;
	j->part[2 * item + 1] = dot_run(g, g, n);
}

// part gets the sums of w^2 and g^2 of each piece, 0 without a w.
static void k_opt_squares(ens_pool *p, double *part, const ens_piece *piece, long n, const float *w, const float *g) {
	opt_job j = {.piece = piece, .w = (float *)w, .g = g, .part = part};
	ens_parallel(p, opt_squares_item, &j, n);
}
