// One sweep of Adam over a flat arena of parameters. With g' = gscale g, and
// + decay w if coupled (L2 as in Adam; otherwise decoupled as in AdamW):
//   m = beta1 m + (1-beta1) g'
//   v = beta2 v + (1-beta2) g'^2
//   w = w - lr decay w (decoupled) - lr (m/c1) / (sqrt(v/c2) + eps)
// c1 = 1-beta1^t and c2 = 1-beta2^t come from the caller.
// Kingma & Ba 2015, arXiv:1412.6980; Loshchilov & Hutter 2019, arXiv:1711.05101.

typedef struct {
	float *w, *m, *v;
	const float *g;
	float lr, beta1, beta2, eps, decay, c1, c2, gscale;
	int coupled;
	long n;
} adam_job;

static void adam_item(void *x, long item) {
	const adam_job *j = x;
	float *w = j->w, *m = j->m, *v = j->v;
	const float *g = j->g;
	float b1 = j->beta1, b2 = j->beta2, eps = j->eps, gs = j->gscale;
	float l2 = j->coupled ? j->decay : 0, keep = j->coupled ? 1 : 1 - j->lr * j->decay;
	float step = j->lr / j->c1, r2 = 1 / sqrtf(j->c2);
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) {
		float d = gs * g[i] + l2 * w[i];
		m[i] = b1 * m[i] + (1 - b1) * d;
		v[i] = b2 * v[i] + (1 - b2) * d * d;
		w[i] = keep * w[i] - step * m[i] / (sqrtf(v[i]) * r2 + eps);
	}
}

static void k_adam(ens_pool *p, float *w, float *m, float *v, const float *g, float lr, float beta1, float beta2,
		float eps, float decay, float c1, float c2, float gscale, int coupled, long n) {
	adam_job j = {w, m, v, g, lr, beta1, beta2, eps, decay, c1, c2, gscale, coupled, n};
	ens_parallel(p, adam_item, &j, pieces(n));
}
