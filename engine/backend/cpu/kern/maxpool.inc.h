// Maximum over disjoint windows; cells left over at the far end take no part.

typedef struct {
	float *y;
	unsigned char *arg;
	const float *x;
	const unsigned char *from;
	const long *in, *k;
} maxpool_job;

static void maxpool_item(void *v, long plane) {
	const maxpool_job *j = v;
	const long *in = j->in, *k = j->k;
	long o[3] = {in[0] / k[0], in[1] / k[1], in[2] / k[2]};
	const float *x = j->x + plane * in[0] * in[1] * in[2];
	float *y = j->y + plane * o[0] * o[1] * o[2];
	unsigned char *a = j->arg + plane * o[0] * o[1] * o[2];
	for (long d = 0; d < o[0]; d++)
		for (long h = 0; h < o[1]; h++, y += o[2], a += o[2]) {
			const float *r = x + (d * k[0] * in[1] + h * k[1]) * in[2];
			if (k[0] == 1 && k[1] == 2 && k[2] == 2) {
				const float *s = r + in[2];
				EACH(w, 0, o[2]) {
					float m = r[2 * w], b = r[2 * w + 1], c = s[2 * w], e = s[2 * w + 1];
					unsigned char q = 0; // a later cell wins only if greater, or not a number
					q = b > m || b != b ? 1 : q; m = b > m || b != b ? b : m;
					q = c > m || c != c ? 2 : q; m = c > m || c != c ? c : m;
					q = e > m || e != e ? 3 : q; m = e > m || e != e ? e : m;
					y[w] = m;
					a[w] = q;
				}
				continue;
			}
			for (long w = 0; w < o[2]; w++) {
				float m = r[w * k[2]];
				long q = 0, best = 0;
				for (long i = 0; i < k[0]; i++)
					for (long b = 0; b < k[1]; b++)
						for (long c = 0; c < k[2]; c++, q++) {
							float t = r[(i * in[1] + b) * in[2] + w * k[2] + c];
							if (t > m || t != t) { m = t; best = q; }
						}
				y[w] = m;
				a[w] = best;
			}
		}
}

// y and the place in its window (row major) of every maximum, the first of equals.
static void k_maxpool(ens_pool *p, float *y, unsigned char *arg, const float *x, long planes, const long *in, const long *k) {
	maxpool_job j = {y, arg, x, 0, in, k};
	ens_parallel(planes * in[0] * in[1] * in[2] < 8192 ? 0 : p, maxpool_item, &j, planes);
}

static void maxpool_grad_item(void *v, long plane) {
	const maxpool_job *j = v;
	const long *in = j->in, *k = j->k;
	long o[3] = {in[0] / k[0], in[1] / k[1], in[2] / k[2]};
	float *dx = j->y + plane * in[0] * in[1] * in[2];
	const float *g = j->x + plane * o[0] * o[1] * o[2];
	const unsigned char *a = j->from + plane * o[0] * o[1] * o[2];
	int plain = k[0] == 1 && k[1] == 2 && k[2] == 2 && in[1] % 2 == 0 && in[2] % 2 == 0;
	if (!plain) memset(dx, 0, in[0] * in[1] * in[2] * sizeof *dx);
	for (long d = 0; d < o[0]; d++)
		for (long h = 0; h < o[1]; h++, g += o[2], a += o[2]) {
			float *r = dx + (d * k[0] * in[1] + h * k[1]) * in[2];
			if (plain) {
				float *s = r + in[2];
				EACH(w, 0, o[2]) {
					r[2 * w] = a[w] == 0 ? g[w] : 0;
					r[2 * w + 1] = a[w] == 1 ? g[w] : 0;
				}
				EACH(w, 0, o[2]) {
					s[2 * w] = a[w] == 2 ? g[w] : 0;
					s[2 * w + 1] = a[w] == 3 ? g[w] : 0;
				}
				continue;
			}
			for (long w = 0; w < o[2]; w++) {
				long q = a[w], c = q % k[2], b = q / k[2] % k[1], i = q / k[2] / k[1];
				r[(i * in[1] + b) * in[2] + w * k[2] + c] = g[w];
			}
		}
}

static void k_maxpool_grad(ens_pool *p, float *dx, const float *dy, const unsigned char *arg, long planes, const long *in, const long *k) {
	maxpool_job j = {dx, 0, dy, arg, in, k};
	ens_parallel(planes * in[0] * in[1] * in[2] < 8192 ? 0 : p, maxpool_grad_item, &j, planes);
}
