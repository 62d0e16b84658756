// Linear interpolation between cell centres (half-pixel, as PyTorch with
// align_corners=False) by whole factors. Cell o of the fine axis lies at
// s = (o+1/2)/f - 1/2 of the coarse one; beyond the first and last centre the
// edge value holds, or with wrap on longitude the axis closes.

enum { UP_MAX = 1 << 16 }; // longest fine row

typedef struct {
	float *y;
	const float *x;
	const long *in, *f;
	int wrap;
} up_job;

// up_pair gives the two coarse cells and the weight of the second.
static inline void up_pair(long o, long n, long f, int wrap, long *a, long *b, float *w) {
	double s = (o + 0.5) / f - 0.5;
	long i = (long)floor(s);
	*w = s - i;
	*a = i;
	*b = i + 1;
	if (wrap) {
		*a = (*a + n) % n;
		*b = (*b + n) % n;
	} else {
		*a = MIN(MAX(*a, 0), n - 1);
		*b = MIN(MAX(*b, 0), n - 1);
	}
}

// up_row writes the fine row of the coarse row t.
static void up_row(float *y, const float *t, long n, long f, int wrap) {
	if (f == 2) { // both phases in one loop, so that stores are whole vectors
		float left = wrap ? t[n - 1] : t[0], right = wrap ? t[0] : t[n - 1];
		EACH(i, 1, n - 1) {
			y[2 * i] = 0.25f * t[i - 1] + 0.75f * t[i];
			y[2 * i + 1] = 0.75f * t[i] + 0.25f * t[i + 1];
		}
		y[0] = 0.25f * left + 0.75f * t[0];
		y[1] = 0.75f * t[0] + 0.25f * (n > 1 ? t[1] : right);
		y[2 * n - 2] = 0.25f * (n > 1 ? t[n - 2] : left) + 0.75f * t[n - 1];
		y[2 * n - 1] = 0.75f * t[n - 1] + 0.25f * right;
		return;
	}
	for (long q = 0; q < f; q++) {
		double s = (q + 0.5) / f - 0.5;
		float w = s < 0 ? -s : s, v = 1 - w;
		long k = s < 0 ? -1 : 1, lo = s < 0, hi = s < 0 ? n : n - 1;
		if (w == 0) { // a centre of the coarse axis: its neighbour is no part of it
			EACH(i, 0, n) y[i * f + q] = t[i];
			continue;
		}
		EACH(i, lo, hi) y[i * f + q] = v * t[i] + w * t[i + k];
		long e = s < 0 ? 0 : n - 1, other = wrap ? (e + k + n) % n : e;
		y[e * f + q] = v * t[e] + w * t[other];
	}
}

// up_mix is p, or between p and q the part w of the way; with w 0 a NaN of q does not count.
static inline void up_mix(float *t, const float *p, const float *q, float w, long n) {
	if (w == 0)
		memcpy(t, p, n * sizeof *t);
	else
		EACH(i, 0, n) t[i] = (1 - w) * p[i] + w * q[i];
}

static void upsample_item(void *v, long item) {
	const up_job *j = v;
	const long *in = j->in, *f = j->f;
	long od = in[0] * f[0], oh = in[1] * f[1], W = in[2], d = item % od, plane = item / od, a, b;
	const float *x = j->x + plane * in[0] * in[1] * W;
	float *y = j->y + item * oh * W * f[2], wd, wh;
	float t[W];
	up_pair(d, in[0], f[0], 0, &a, &b, &wd);
	const float *xa = x + a * in[1] * W, *xb = x + b * in[1] * W;
	for (long h = 0; h < oh; h++, y += W * f[2]) {
		up_pair(h, in[1], f[1], 0, &a, &b, &wh);
		const float *p = xa + a * W, *q = xa + b * W, *r = xb + a * W, *s = xb + b * W;
		if (wd == 0)
			up_mix(t, p, q, wh, W);
		else if (wh == 0)
			up_mix(t, p, r, wd, W);
		else
			EACH(i, 0, W) t[i] = (1 - wd) * ((1 - wh) * p[i] + wh * q[i]) + wd * ((1 - wh) * r[i] + wh * s[i]);
		up_row(y, t, W, f[2], j->wrap);
	}
}

// y[plane][D fD][H fH][W fW] from x[plane][D][H][W]; wrap closes the last axis.
static void k_upsample(ens_pool *p, float *y, const float *x, long planes, const long *in, const long *f, int wrap) {
	up_job j = {y, x, in, f, wrap};
	ens_parallel(planes * in[0] * in[1] * in[2] < 4096 ? 0 : p, upsample_item, &j, planes * in[0] * f[0]);
}

// up_row_grad adds the adjoint of up_row: t[i] = sum over the fine cells that read i.
static void up_row_grad(float *t, const float *g, long n, long f, int wrap) {
	if (f == 2 && n > 1) {
		EACH(i, 1, n - 1) t[i] = 0.75f * (g[2 * i] + g[2 * i + 1]) + 0.25f * (g[2 * i - 1] + g[2 * i + 2]);
		float left = wrap ? g[2 * n - 1] : g[0], right = wrap ? g[0] : g[2 * n - 1];
		t[0] = 0.75f * (g[0] + g[1]) + 0.25f * (left + g[2]);
		t[n - 1] = 0.75f * (g[2 * n - 2] + g[2 * n - 1]) + 0.25f * (g[2 * n - 3] + right);
		return;
	}
	EACH(i, 0, n) t[i] = 0;
	for (long q = 0; q < f; q++) {
		double s = (q + 0.5) / f - 0.5;
		float w = s < 0 ? -s : s, v = 1 - w;
		long k = s < 0 ? -1 : 1, lo = s < 0, hi = s < 0 ? n : n - 1;
		EACH(i, 0, n) t[i] += v * g[i * f + q];
		if (w == 0) continue;
		EACH(i, lo, hi) t[i + k] += w * g[i * f + q];
		long e = s < 0 ? 0 : n - 1, other = wrap ? (e + k + n) % n : e;
		t[other] += w * g[e * f + q];
	}
}

static void upsample_grad_item(void *v, long item) {
	const up_job *j = v;
	const long *in = j->in, *f = j->f;
	long H = in[1], W = in[2], oh = H * f[1], ow = W * f[2], od = in[0] * f[0];
	long d = item % in[0], plane = item / in[0], a, b;
	const float *g = j->x + plane * od * oh * ow;
	float *dx = j->y + item * H * W, wd, wh;
	float t[ow];
	// Every coarse row gathers the fine rows that read it.
	for (long h = 0; h < H; h++, dx += W) {
		memset(t, 0, ow * sizeof *t);
		for (long z = MAX(0, (d - 1) * f[0]); z < MIN(od, (d + 2) * f[0]); z++) {
			up_pair(z, in[0], f[0], 0, &a, &b, &wd);
			float cd = (a == d ? 1 - wd : 0) + (b == d ? wd : 0);
			if (cd == 0) continue;
			for (long r = MAX(0, (h - 1) * f[1]); r < MIN(oh, (h + 2) * f[1]); r++) {
				up_pair(r, H, f[1], 0, &a, &b, &wh);
				float c = cd * ((a == h ? 1 - wh : 0) + (b == h ? wh : 0));
				if (c == 0) continue;
				const float *s = g + (z * oh + r) * ow;
				EACH(i, 0, ow) t[i] += c * s[i];
			}
		}
		up_row_grad(dx, t, W, f[2], j->wrap);
	}
}

static void k_upsample_grad(ens_pool *p, float *dx, const float *dy, long planes, const long *in, const long *f, int wrap) {
	up_job j = {dx, dy, in, f, wrap};
	ens_parallel(planes * in[0] * in[1] * in[2] < 4096 ? 0 : p, upsample_grad_item, &j, planes * in[0]);
}
