// Transcendental functions in double, branch-free so that loops over them
// vectorise. Results are rounded to float32, hence relative errors of 1e-10
// suffice here; what that means at float32 is half a unit in the last place.

static inline double from_bits(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static inline uint64_t to_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }

// exp x = 2^k exp r with |r| <= ln2/2; Taylor to r^9 leaves 7e-12. Arguments
// are limited to +-708, far outside of what float32 holds.
static inline double exp_d(double x) {
	x = x < -708 ? -708 : x;
	x = x > 708 ? 708 : x;
	const double magic = 0x1.8p52; // adding it rounds to an integer, low bits hold it
	double t = x * 1.44269504088896340736 + magic;
	double k = t - magic;
	double r = x - k * 6.93147180369123816490e-01 - k * 1.90821492927058770002e-10;
	double e = 1 + r * (1 + r * (1. / 2 + r * (1. / 6 + r * (1. / 24 + r * (1. / 120 +
			r * (1. / 720 + r * (1. / 5040 + r * (1. / 40320 + r * (1. / 362880)))))))));
	return e * from_bits((to_bits(t) + 1023) << 52);
}

// log x = k ln2 + 2 artanh s, s = (m-1)/(m+1), m in [sqrt(1/2), sqrt 2):
// s^2 < 0.0295, series to s^13 leaves 2e-12.
static inline double log_d(double x) {
	uint64_t u = to_bits(x) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
	double k = from_bits((u >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
	double m = from_bits((u & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
	double s = (m - 1) / (m + 1), q = s * s;
	double l = 2 * s * (1 + q * (1. / 3 + q * (1. / 5 + q * (1. / 7 + q * (1. / 9 + q * (1. / 11 + q * (1. / 13)))))));
	l += k * 0.693147180559945309417;
	l = x == 0 ? -INFINITY : l;
	l = x == INFINITY ? x : l;
	return x >= 0 ? l : NAN;
}

// log1p of e in [0, 1], exact to first order where 1+e would lose it.
static inline double log1p_d(double e) {
	double l = log_d(1 + e);
	return e < 1e-8 ? e : l;
}

static inline double softplus_d(double x) {
	double a = fabs(x);
	double r = (x > 0 ? x : 0) + log1p_d(exp_d(-a));
	return x == x ? r : x;
}

static inline double sigmoid_d(double x) { return 1 / (1 + exp_d(-x)); }

// Near zero the series, elsewhere the quotient of exponentials.
static inline double tanh_d(double x) {
	double a = fabs(x), t = exp_d(-2 * a), q = x * x;
	double far = copysign((1 - t) / (1 + t), x);
	double near = x * (1 + q * (-1. / 3 + q * (2. / 15 + q * (-17. / 315 + q * (62. / 2835)))));
	return a < 0.1 ? near : far;
}

// erf by the rational functions of Cody 1969, doi:10.1090/S0025-5718-1969-0247736-4.
// His third interval (|x| > 4, erfc < 1.6e-8) is served by the second: the
// result is 1 in float32.
static inline double erf_d(double x) {
	double a = fabs(x), q = x * x;
	double near = x * ((((1.85777706184603153e-1 * q + 3.16112374387056560e0) * q + 1.13864154151050156e2) * q +
			3.77485237685302021e2) * q + 3.20937758913846947e3) /
			((((q + 2.36012909523441209e1) * q + 2.44024637934444173e2) * q + 1.28261652607737228e3) * q +
			2.84423683343917062e3);
	double y = a > 6 ? 6 : a;
	double num = ((((((((2.15311535474403846e-8 * y + 5.64188496988670089e-1) * y + 8.88314979438837594e0) * y +
			6.61191906371416295e1) * y + 2.98635138197400131e2) * y + 8.81952221241769090e2) * y +
			1.71204761263407058e3) * y + 2.05107837782607147e3) * y + 1.23033935479799725e3);
	double den = ((((((((y + 1.57449261107098347e1) * y + 1.17693950891312499e2) * y + 5.37181101862009858e2) * y +
			1.62138957456669019e3) * y + 3.29079923573345963e3) * y + 4.36261909014324716e3) * y +
			3.43936767414372164e3) * y + 1.23033935480374942e3);
	double far = copysign(1 - exp_d(-y * y) * num / den, x);
	double r = a <= 0.46875 ? near : far;
	return x == x ? r : x;
}
