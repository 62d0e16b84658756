// Mean CRPS of a regression with normal distributions, with gradient and second derivatives with
// respect to the coefficients, at LANES neighbouring points in double precision. regression.c
// includes this file once for each instruction set, with DL doubles per vector; NAME adds the
// name of the instruction set.
#define dvec NAME(dvec)
#define dints NAME(dints)
#define half NAME(half)
#define dall NAME(dall)
#define widen NAME(widen)
#define choose NAME(choose)
#define droot NAME(droot)
#define dexp NAME(dexp)
#define normal_sums NAME(normal_sums)

typedef double dvec __attribute__((vector_size(DL * 8), aligned(8), may_alias));
typedef long long dints __attribute__((vector_size(DL * 8), aligned(8), may_alias));
typedef float half __attribute__((vector_size(DL * 4), aligned(4), may_alias));

INLINE dvec dall(double x) { return x - (dvec){0}; }
INLINE dvec widen(const float *p) { return __builtin_convertvector(*(const half *)p, dvec); }
INLINE dvec choose(dints m, dvec a, dvec b) { return (dvec)((m & (dints)a) | (~m & (dints)b)); }
INLINE dvec droot(dvec a) {
	for (int i = 0; i < DL; i++) a[i] = __builtin_sqrt(a[i]);
	return a;
}

// dexp is exp(x) for x ≤ 709, and 0 below −708. exp(x) = 2ⁿ exp(r) with |r| ≤ log(2)/2: a Taylor
// series of degree 13, and n is added to the exponent. Relative error 3e-16.
INLINE dvec dexp(dvec x) {
	dints tiny = x < dall(-708);
	x = choose(tiny, dall(-708), x);
	const double magic = 0x1.8p52; // adding it rounds to an integer in the low bits
	dvec shifted = x * 0x1.71547652b82fep0 + magic;
	dvec n = shifted - magic;
	dvec r = x - n * 0x1.62e42fefa38p-1;
	r -= n * 0x1.ef35793c7673p-45;
	dvec p = dall(1.0 / 6227020800.0);
	static const double c[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
		1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
	UNROLL for (int i = 0; i < 13; i++) p = p * r + c[i];
	p = (dvec)((dints)p + ((dints)shifted << 52));
	return choose(tiny, dall(0), p);
}

// normal_sums computes k_normal_sums for one vector of lanes.
//
// With z = (mu−y)/sigma, the CRPS is (mu−y) erf(z/√2) + sigma (2φ(z) − 1/√π), as in
// dist.NormalCRPS. erf(a) = 1 − exp(−a²) erfcx(a) for a = |z|/√2, and erfcx is a polynomial in
// (a−k)/(a+k), divided by 1+2a (erfcx.py).
INLINE void normal_sums(double *out, const double *theta, const double *season, const float *anomaly, const float *spread, const float *obs,
	long dates, int seasons, int link) {
	const int k = 2 + seasons, n = k + 2;
	dvec t[TERMS], x[TERMS], grad[TERMS], curv[TERMS * (TERMS + 1) / 2], value = {0}, count = {0};
	UNROLL for (int i = 0; i < n; i++) {
		t[i] = *(const dvec *)(theta + i * LANES);
		grad[i] = dall(0);
	}
	UNROLL for (int i = 0; i < n * (n + 1) / 2; i++) curv[i] = dall(0);
	x[0] = x[k] = dall(1);
	for (long d = 0; d < dates; d++, season += seasons, anomaly += LANES, spread += LANES, obs += LANES) {
		dvec y = widen(obs);
		dints present = y == y; // false for NaN
		y = choose(present, y, dall(0));
		dvec one = choose(present, dall(1), dall(0));
		x[1] = widen(anomaly);
		x[k + 1] = widen(spread);
		dvec mu = t[0] + t[1] * x[1];
		UNROLL for (int h = 0; h < seasons; h++) {
			x[2 + h] = dall(season[h]);
			mu += t[2 + h] * x[2 + h];
		}
		dvec eta = t[k] + t[k + 1] * x[k + 1], sigma, inverse, first, second;
		if (link == SIMD_QUADRATIC) {
			sigma = droot(eta);
			inverse = 1 / sigma;
			first = 0.5 * inverse;
			second = -0.5 * first * inverse * inverse;
		} else if (link == SIMD_LOG) {
			sigma = first = second = dexp(eta);
			inverse = 1 / sigma;
		} else {
			sigma = eta;
			inverse = 1 / sigma;
			first = dall(1);
			second = dall(0);
		}
		dvec off = mu - y, z = off * inverse;
		dvec a = (dvec)((dints)z & 0x7fffffffffffffffll) * 0x1.6a09e667f3bcdp-1; // |z|/√2
		dvec e = dexp(-a * a);
		dvec over = 1 / ((a + erfcx_k) * (1 + 2 * a));
		dvec s = (a - erfcx_k) * (1 + 2 * a) * over, g = dall(erfcx_c[ERFCX_DEGREE]);
		UNROLL for (int i = ERFCX_DEGREE - 1; i >= 0; i--) g = g * s + erfcx_c[i];
		dvec erf = 1 - e * g * (a + erfcx_k) * over;
		dvec dmu = (dvec)((dints)erf | ((dints)z & (dints)dall(-0.0)));
		dvec density = e * 0x1.9884533d43651p-1; // 2φ(z)
		dvec dsigma = density - 0x1.20dd750429b6dp-1; // 1/√π
		value += one * (off * dmu + sigma * dsigma);
		count += one;
		dvec w = one * density * inverse; // 2φ(z)/sigma; the second derivatives are 1, −z and z² times it
		dmu *= one;
		dvec ds = one * dsigma * first;
		UNROLL for (int i = 0; i < k; i++) grad[i] += dmu * x[i];
		grad[k] += ds;
		grad[k + 1] += ds * x[k + 1];
		dvec ls = -w * z * first, ss = w * z * z * first * first + one * dsigma * second;
		int j = 0;
		UNROLL for (int p = 0; p < k; p++) {
			dvec v = w * x[p];
			UNROLL for (int q = 0; q <= p; q++) curv[j++] += v * x[q];
		}
		UNROLL for (int p = k; p < n; p++) {
			dvec v = ls * x[p];
			UNROLL for (int q = 0; q < k; q++) curv[j++] += v * x[q];
			v = ss * x[p];
			UNROLL for (int q = k; q <= p; q++) curv[j++] += v * x[q];
		}
	}
	dvec part = 1 / count;
	*(dvec *)out = value * part;
	*(dvec *)(out + LANES) = count;
	UNROLL for (int i = 0; i < n; i++) *(dvec *)(out + (2 + i) * LANES) = grad[i] * part;
	UNROLL for (int i = 0; i < n * (n + 1) / 2; i++) *(dvec *)(out + (2 + TERMS + i) * LANES) = curv[i] * part;
}

// k_normal_sums computes mean CRPS, number of dates, gradient and second derivatives (lower
// triangle, row by row) of
//   location = θ0 + θ1 anomaly + Σ θ season,  scale = link(θ_k + θ_k+1 spread)
// over the dates whose obs is not NaN. Shape: theta and out [..][LANES], out has 2 + TERMS +
// TERMS(TERMS+1)/2 rows; season [date][seasons], 0, 2 or 4; the fields [date][LANES].
static void NAME(k_normal_sums)(SUMS) {
	for (int l = 0; l < LANES; l += DL) {
		switch (seasons * 3 + link) {
#define CASE(s, k) \
	case s * 3 + k: normal_sums(out + l, theta + l, season, anomaly + l, spread + l, obs + l, dates, s, k); break;
			CASE(0, 0) CASE(0, 1) CASE(0, 2) CASE(2, 0) CASE(2, 1) CASE(2, 2) CASE(4, 0) CASE(4, 1) CASE(4, 2)
#undef CASE
		}
	}
}

#undef DL
#undef NAME
#undef dvec
#undef dints
#undef half
#undef dall
#undef widen
#undef choose
#undef droot
#undef dexp
#undef normal_sums
