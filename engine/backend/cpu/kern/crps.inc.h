// The closed form of the CRPS of a normal distribution, as in postproc/dist:
// with z = (y-mu)/sigma, 0 where y = mu,
//   crps   = (y-mu) erf(z/sqrt 2) + sigma (2 phi(z) - 1/sqrt pi)
//   dmu    = -erf(z/sqrt 2)
//   dsigma = 2 phi(z) - 1/sqrt pi
//   dy     = erf(z/sqrt 2)
// (2 Phi(z) - 1 = erf(z/sqrt 2)). sigma = 0 gives |y-mu|, sigma < 0 NaN.
// Gneiting et al. 2005, doi:10.1175/MWR2904.1.

typedef struct {
	float *crps, *dmu, *dsigma, *dy;
	const float *mu, *sigma, *y;
	long n;
} crps_job;

static void crps_item(void *v, long item) {
	enum { B = 256 };
	const crps_job *j = v;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	for (; lo < hi; lo += B) { // in strips, so that each output is one simple loop
		long n = MIN(B, hi - lo);
		double d[B], z[B], e[B], s[B];
		const float *mu = j->mu + lo, *sg = j->sigma + lo, *y = j->y + lo;
		EACH(i, 0, n) d[i] = (double)y[i] - mu[i];
		EACH(i, 0, n) {
			double q = d[i] / sg[i];
			q = d[i] == 0 ? 0 : q;
			z[i] = sg[i] >= 0 ? q : NAN;
		}
		EACH(i, 0, n) e[i] = erf_d(z[i] * 0.70710678118654752440);
		EACH(i, 0, n) s[i] = 0.79788456080286535588 * exp_d(-0.5 * z[i] * z[i]) - 0.56418958354775628695;
		if (j->crps) EACH(i, 0, n) j->crps[lo + i] = d[i] * e[i] + sg[i] * s[i];
		if (j->dmu) EACH(i, 0, n) j->dmu[lo + i] = -e[i];
		if (j->dy) EACH(i, 0, n) j->dy[lo + i] = e[i];
		if (j->dsigma) EACH(i, 0, n) j->dsigma[lo + i] = s[i];
	}
}

// Outputs that are null are left out.
static void k_crps_gauss(ens_pool *p, float *crps, float *dmu, float *dsigma, float *dy, const float *mu,
		const float *sigma, const float *y, long n) {
	crps_job j = {crps, dmu, dsigma, dy, mu, sigma, y, n};
	ens_parallel(p, crps_item, &j, pieces(n));
}
