#include "common.cuh"
// Scores of distributions that need incomplete gamma and beta functions: the censored,
// shifted gamma distribution and Student's t. The formulas are those of postproc/dist, where
// their sources are named, in double. FAMILY is one of the two.

#define student 0
#define censored_gamma 1

constexpr double inv_sqrt_pi = 0.564189583547756287, inv_sqrt_2pi = 0.398942280401432678, sqrt_half = 0.707106781186547524;
constexpr double rounding = 1e-16, tiny = 1e-300;
constexpr int most_terms = 20000;

DEVICE double normal_cdf(double z) { return 0.5 * erfc(-z * sqrt_half); }

// ψ(x) for x > 0: by its recurrence where x is small, then asymptotically (Abramowitz and
// Stegun 1964, 6.3.5 and 6.3.18).
DEVICE double digamma(double x) {
	double r = 0;
	for (; x < 10; x++)
		r -= 1 / x;
	double y = 1 / (x * x);
	return r + log(x) - 0.5 / x - y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y * (1. / 240 - y / 132))));
}

// The regularised lower incomplete gamma function P(a, x): its series, 6.5.29, or for large x
// one less the continued fraction of the upper one, 6.5.31, by the method of Lentz.
DEVICE double gamma_p(double a, double x) {
	if (!(a > 0) || a == INFINITY || x != x)
		return NAN;
	if (x <= 0 || x == INFINITY)
		return x > 0 ? 1 : 0;
	double front = exp(a * log(x) - x - lgamma(a));
	if (x < a + 1) {
		double term = 1 / a, sum = term;
		for (int n = 1; n < most_terms && term > sum * rounding; n++) {
			term *= x / (a + n);
			sum += term;
		}
		return front * sum;
	}
	double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
	for (int n = 1; n < most_terms; n++) {
		double s = -n * (n - a);
		b += 2;
		d = s * d + b;
		c = b + s / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		h *= d * c;
		if (fabs(d * c - 1) < rounding)
			break;
	}
	return 1 - front * h;
}

#if FAMILY == student

DEVICE double log_beta(double a, double b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }

// The continued fraction of the incomplete beta function, 26.5.8, by the method of Lentz.
DEVICE double beta_fraction(double a, double b, double x) {
	double c = 1, d = 1 - (a + b) * x / (a + 1);
	d = 1 / (fabs(d) < tiny ? tiny : d);
	double h = d;
	for (int m = 1; m < most_terms; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), change = 1;
		for (int k = 0; k < 2; k++) {
			double s = k == 0 ? even : odd;
			d = 1 + s * d;
			c = 1 + s / c;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = fabs(c) < tiny ? tiny : c;
			change = d * c;
			h *= change;
		}
		if (fabs(change - 1) < rounding)
			break;
	}
	return h;
}

// The regularised incomplete beta function I_x(a, b).
DEVICE double beta_p(double a, double b, double x) {
	if (!(x > 0))
		return x != x ? x : 0;
	if (x >= 1)
		return 1;
	double front = exp(a * log(x) + b * log1p(-x) - log_beta(a, b));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

constexpr double normal_tails = 1e7; // degrees of freedom from which on it is normal

DEVICE double cdf(double nu, double z) {
	if (nu >= normal_tails)
		return normal_cdf(z);
	if (z != z || !(nu > 0))
		return NAN;
	if (fabs(z) == INFINITY)
		return z > 0 ? 1 : 0;
	double square = z * z;
	double tail = square < nu ? 0.5 - 0.5 * beta_p(0.5, nu / 2, square / (nu + square)) : 0.5 * beta_p(nu / 2, 0.5, nu / (nu + square));
	return z > 0 ? 1 - tail : tail;
}

// The score of mu + sigma·T against y, and its derivatives by mu and sigma.
DEVICE double score(double mu, double sigma, double nu, double y, double *d) {
	if (!(sigma > 0) || !(nu > 1) || y - mu != y - mu)
		return d[0] = d[1] = NAN;
	double z = (y - mu) / sigma, away;
	if (nu >= normal_tails) {
		away = erf(z * sqrt_half);
		d[1] = 2 * inv_sqrt_2pi * exp(-0.5 * z * z) - inv_sqrt_pi;
	} else {
		double beta = log_beta(0.5, nu / 2), density = exp(-beta - (nu + 1) / 2 * log1p(z * z / nu)) / sqrt(nu);
		away = 2 * cdf(nu, z) - 1;
		d[1] = 2 * density * (nu + z * z) / (nu - 1) - 2 * sqrt(nu) / (nu - 1) * exp(log_beta(0.5, nu - 0.5) - 2 * beta);
	}
	d[0] = -away;
	return sigma * (z * away + d[1]);
}

// That by nu is a central difference.
DEVICE double score_of(const double *p, double y, double *d, bool grads) {
	double value = score(p[0], p[1], p[2], y, d), other[2], step = 1e-4 * (p[2] - 1);
	if (grads)
		d[2] = (score(p[0], p[1], p[2] + step, y, other) - score(p[0], p[1], p[2] - step, y, other)) / (2 * step);
	return value;
}

DEVICE double cdf_of(const double *p, double y) { return p[1] >= 0 ? cdf(p[2], (y - p[0]) / p[1]) : NAN; }

#else

// The derivative of P(k, x) by k, by its series.
DEVICE double by_shape(double k, double x) {
	if (x <= 0 || x > 2 * k + 80) // where the tail is below 1e-30
		return 0;
	double logarithm = log(x), term = k * logarithm - x - lgamma(k + 1), psi = digamma(k + 1), sum = 0;
	for (int n = 1; n < most_terms; n++) {
		double w = exp(term);
		sum += w * (logarithm - psi);
		if (k + n > x && w * fabs(logarithm - psi) < 1e-18)
			break;
		term += logarithm - log(k + n);
		psi += 1 / (k + n);
	}
	return sum;
}

DEVICE double score_of(const double *p, double y, double *d, bool grads) {
	double k = p[0], scale = p[1], shift = p[2];
	if (!(k > 0 && scale > 0 && shift >= 0 && k + scale + shift < INFINITY) || y != y)
		return d[0] = d[1] = d[2] = NAN;
	double below = y < 0 ? -y : 0;
	y = y < 0 ? 0 : y;
	double t = (y + shift) / scale, c = shift / scale;
	double ft = gamma_p(k, t), ft1 = gamma_p(k + 1, t), fc = gamma_p(k, c), fc1 = gamma_p(k + 1, c), fc2 = gamma_p(2 * k + 1, 2 * c);
	double b = exp(lgamma(k + 0.5) - lgamma(k)) * inv_sqrt_pi, gt = 2 * ft - 1, gc = -fc * fc;
	double g = t * gt - k * (2 * ft1 - 1) + c * gc + k * fc1 * fc1 - b * (1 - fc2);
	if (grads) {
		double db = b * (digamma(k + 0.5) - digamma(k));
		d[0] = scale * (2 * t * by_shape(k, t) - (2 * ft1 - 1) - 2 * k * by_shape(k + 1, t) - 2 * c * fc * by_shape(k, c) + fc1 * fc1 +
			2 * k * fc1 * by_shape(k + 1, c) - db * (1 - fc2) + 2 * b * by_shape(2 * k + 1, 2 * c));
		d[1] = g - t * gt - c * gc;
		d[2] = gt + gc;
	}
	return scale * g + below;
}

DEVICE double cdf_of(const double *p, double y) {
	if (!(p[0] >= 0 && p[1] >= 0 && p[2] >= 0) || y != y)
		return NAN;
	return y < 0 ? 0 : gamma_p(p[0], (y + p[2]) / p[1]);
}

#endif

// The three parameters of point t; `points` per sample; and their first index.
DEVICE int64_t parameters(const float *par, int64_t t, int64_t points, double *p) {
	int64_t first = t / points * 3 * points + t % points;
	for (int k = 0; k < 3; k++)
		p[k] = par[first + k * points] + 0.0f; // −0 becomes 0
	return first;
}

KERNEL score_values(const float *par, const float *y, float *out, int64_t n, int64_t points) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3], d[3];
		parameters(par, t, points, p);
		out[t] = static_cast<float>(score_of(p, y[t], d, false));
	}
}

KERNEL score_grads(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3], d[3] = {};
		int64_t first = parameters(par, t, points, p);
		if (dy[t] != 0) // points without weight cost nothing
			score_of(p, y[t], d, true);
		for (int k = 0; k < 3; k++)
			out[first + k * points] = static_cast<float>(dy[t] * d[k]);
	}
}

KERNEL score_dys(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3];
		parameters(par, t, points, p);
		out[t] = static_cast<float>(dy[t] * (2 * cdf_of(p, y[t]) - 1));
	}
}
