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

// crps_strip computes a strip of n <= CRPS_STRIP values, so that each output is
// one simple loop. Outputs that are null are left out; one may be an input if it
// is the only one.
enum { CRPS_STRIP = 256 };
static void crps_strip(float *crps, float *dmu, float *dsigma, float *dy, const float *mu, const float *sg, const float *y, long n) {
	double d[CRPS_STRIP], z[CRPS_STRIP], e[CRPS_STRIP], s[CRPS_STRIP];
	EACH(i, 0, n) d[i] = (double)y[i] - mu[i];
	EACH(i, 0, n) {
		double q = d[i] / sg[i];
		q = d[i] == 0 ? 0 : q;
		z[i] = sg[i] >= 0 ? q : NAN;
	}
	EACH(i, 0, n) e[i] = erf_d(z[i] * 0.70710678118654752440);
	EACH(i, 0, n) s[i] = 0.79788456080286535588 * exp_d(-0.5 * z[i] * z[i]) - 0.56418958354775628695;
	if (crps) EACH(i, 0, n) crps[i] = d[i] * e[i] + sg[i] * s[i];
	if (dmu) EACH(i, 0, n) dmu[i] = -e[i];
	if (dy) EACH(i, 0, n) dy[i] = e[i];
	if (dsigma) EACH(i, 0, n) dsigma[i] = s[i];
}

static void crps_item(void *v, long item) {
	const crps_job *j = v;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
#define FROM(p) (j->p ? j->p + lo : 0)
	for (; lo < hi; lo += CRPS_STRIP)
		crps_strip(FROM(crps), FROM(dmu), FROM(dsigma), FROM(dy), j->mu + lo, j->sigma + lo, j->y + lo, MIN(CRPS_STRIP, hi - lo));
#undef FROM
}

// Outputs that are null are left out.
static void k_crps_gauss(ens_pool *p, float *crps, float *dmu, float *dsigma, float *dy, const float *mu,
		const float *sigma, const float *y, long n) {
	crps_job j = {crps, dmu, dsigma, dy, mu, sigma, y, n};
	ens_parallel(p, crps_item, &j, pieces(n));
}
