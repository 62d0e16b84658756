#include "common.cuh"
// Scores of distributions whose parameters are the channels: the closed forms of package
// postproc/dist, where their sources are named, in double. FAMILY is the number of one.

constexpr double inv_sqrt_pi = 0.564189583547756287, inv_sqrt_2pi = 0.398942280401432678, sqrt2 = 1.41421356237309505, sqrt_half = 0.707106781186547524;

// The families, by their numbers in scores.go.
enum family { normal, truncated_normal, censored_normal, zero_normal, log_normal, logistic, truncated_logistic, censored_logistic };

// A score with its derivatives by up to three parameters.
struct score {
	double value, d[3];
};

DEVICE score nothing() { return {NAN, {NAN, NAN, NAN}}; }

DEVICE bool is_nan(double x) { return x != x; }
DEVICE double larger(double a, double b) { return a > b ? a : b; }

DEVICE double normal_pdf(double z) { return inv_sqrt_2pi * exp(-0.5 * z * z); }
DEVICE double normal_cdf(double z) { return 0.5 * erfc(-z * sqrt_half); }

DEVICE score of_normal(double mu, double sigma, double y) {
	double d = mu - y;
	if (!(sigma >= 0) || is_nan(d))
		return nothing();
	double t = d != 0 ? d / sigma : 0;
	score s = {};
	s.d[0] = erf(t * sqrt_half);
	s.d[1] = 2 * normal_pdf(t) - inv_sqrt_pi;
	s.value = sigma * s.d[1] + (d != 0 ? d * s.d[0] : 0);
	return s;
}

// A point mass at max(mu, 0).
DEVICE score at_point(score s, double mu, double below) {
	if (mu <= 0)
		s.d[0] = s.d[1] = 0;
	s.value += below;
	return s;
}

DEVICE score of_censored_normal(double mu, double sigma, double y) {
	if (!(sigma >= 0) || is_nan(mu) || is_nan(y))
		return nothing();
	double below = larger(-y, 0);
	y = larger(y, 0);
	if (sigma == 0)
		return at_point(of_normal(larger(mu, 0), 0, y), mu, below);
	double l = -mu / sigma, z = (y - mu) / sigma, f = normal_cdf(l), gz = erf(z * sqrt_half), gl = -f * f, g;
	if (l <= 0) {
		g = z * gz + 2 * normal_pdf(z) - inv_sqrt_pi - (l * f * f + 2 * normal_pdf(l) * f - inv_sqrt_pi * normal_cdf(sqrt2 * l));
	} else { // the probability above 0 is small
		double q = normal_cdf(-l), tail_l = normal_pdf(l) - l * normal_cdf(-l), tail_z = normal_pdf(z) - z * normal_cdf(-z);
		g = y / sigma - 2 * (tail_l - tail_z) + 2 * normal_pdf(l) * q - l * q * q - inv_sqrt_pi * normal_cdf(-sqrt2 * l);
	}
	return {sigma * g + below, {-(gz + gl), g - z * gz - l * gl, 0}};
}

// Beyond these distances of the centre below 0 the truncated normal is computed through Mills
// ratios, and then as the exponential distribution that it tends to.
constexpr double mills_below = 20, exponential_below = 300;

// The ratio (1−Φ(x))/φ(x) for x ≥ 20, by its continued fraction.
DEVICE double mills(double x) {
	double f = x;
	for (int k = 10; k > 0; k--)
		f = x + k / f;
	return 1 / f;
}

// With the mass above l as their unit: the tail and the density at z, the density at l, and
// (1−Φ(√2 l))/√π over the mass squared.
struct cut {
	double a, b, h, d;
};

DEVICE cut cut_normal(double l, double z) {
	if (l > mills_below) {
		double e = exp(-0.5 * (z - l) * (z + l)), r = mills(l);
		return {e * mills(z) / r, e / r, 1 / r, sqrt2 * mills(sqrt2 * l) / (r * r)};
	}
	double p = normal_cdf(-l);
	return {normal_cdf(-z) / p, normal_pdf(z) / p, normal_pdf(l) / p, inv_sqrt_pi * normal_cdf(-sqrt2 * l) / (p * p)};
}

DEVICE score of_truncated_normal(double mu, double sigma, double y) {
	if (!(sigma >= 0) || is_nan(mu) || is_nan(y))
		return nothing();
	double below = larger(-y, 0);
	y = larger(y, 0);
	if (sigma == 0)
		return at_point(of_normal(larger(mu, 0), 0, y), mu, below);
	double l = -mu / sigma, z = (y - mu) / sigma;
	if (l > exponential_below) {
		double tau = sigma / -mu * sigma, q = y / tau, e = exp(-q), dtau = -1.5 + 2 * e + (e != 0 ? 2 * q * e : 0);
		return {y - 2 * tau * (1 - e) + tau / 2 + below, {dtau * tau / -mu, dtau * 2 * (sigma / -mu), 0}};
	}
	cut c = cut_normal(l, z);
	double gz = 1 - 2 * c.a, gl = 0, lgl = 0;
	if (c.h != 0) {
		gl = c.a == 0 ? 2 * c.h * (c.h - c.d) : 2 * c.h * (c.b - z * c.a + c.h - c.d);
		lgl = l * gl;
	}
	return {(y - mu) * gz + sigma * (2 * c.b - c.d) + below, {-(gz + gl), 2 * c.b - c.d - lgl, 0}};
}

DEVICE score of_zero_normal(double p, double mu, double sigma, double y) {
	if (!(sigma > 0 && p >= 0 && p <= 1) || is_nan(mu) || is_nan(y))
		return nothing();
	double below = larger(-y, 0), r = 1 - p;
	y = larger(y, 0);
	double l = -mu / sigma, z = (y - mu) / sigma;
	if (l > exponential_below) {
		double tau = sigma / -mu * sigma, q = y / tau, e = exp(-q), qe = e != 0 ? q * e : 0, dtau = -2 * r * (1 - e - qe) + r * r / 2;
		return {y - 2 * r * tau * (1 - e) + r * r * tau / 2 + below, {2 * tau * (1 - e) - r * tau, dtau * tau / -mu, dtau * 2 * (sigma / -mu)}};
	}
	cut c = cut_normal(l, z);
	double u = c.h - l - c.b + (c.a != 0 ? z * c.a : 0), v = 2 * c.h - l - c.d, gz = 1 - 2 * r * c.a;
	double gl = c.h == 0 ? -p * p : -p * p - c.h * (2 * r * u - 2 * r * r * v);
	double g = z * gz - l * p * p + 2 * r * (c.b - c.h) + r * r * (2 * c.h - c.d);
	return {sigma * g + below, {sigma * (2 * u - 2 * r * v), -(gz + gl), g - z * gz - l * gl}};
}

DEVICE score of_log_normal(double mu, double sigma, double y) {
	if (!(sigma >= 0) || is_nan(mu) || is_nan(y))
		return nothing();
	if (sigma == 0) {
		double m = exp(mu);
		score s = of_normal(m, 0, y);
		s.d[0] *= m;
		s.d[1] *= m;
		return s;
	}
	double e = exp(mu + sigma * sigma / 2), z = -INFINITY, density = 0;
	if (y > 0) {
		z = (log(y) - mu) / sigma;
		density = 2 * y * normal_pdf(z);
	}
	double a = normal_cdf(sigma * sqrt_half) - normal_cdf(sigma - z);
	return {y * erf(z * sqrt_half) - 2 * e * a, {-2 * e * a, -2 * e * sigma * a - sqrt2 * e * normal_pdf(sigma * sqrt_half) + density, 0}};
}

DEVICE score of_logistic(double mu, double s, double y) {
	double d = y - mu;
	if (!(s >= 0) || is_nan(d))
		return nothing();
	double z = d != 0 ? d / s : 0, a = fabs(z), e = exp(-a), part = 2 * log1p(e) - 1, over = e != 0 ? 2 * a * e / (1 + e) : 0;
	return {fabs(d) + s * part, {-tanh(z / 2), part + over, 0}};
}

// The tail beyond z of the logistic distribution, and its integral.
DEVICE void logistic_tail(double z, double *q, double *k) {
	double e = exp(-fabs(z));
	*q = z > 0 ? e / (1 + e) : 1 / (1 + e);
	*k = log1p(e) - (z > 0 ? 0 : z);
}

constexpr double logistic_far = 30;

DEVICE score of_truncated_logistic(double mu, double s, double y) {
	if (!(s >= 0) || is_nan(mu) || is_nan(y))
		return nothing();
	double below = larger(-y, 0);
	y = larger(y, 0);
	if (s == 0)
		return at_point(of_logistic(larger(mu, 0), 0, y), mu, below);
	double l = -mu / s, z = (y - mu) / s;
	if (l > logistic_far) {
		double e = exp(-y / s), qe = e != 0 ? y / s * e : 0;
		return {y + s * (2 * e - 1.5) + below, {0, 2 * e - 1.5 + 2 * qe, 0}};
	}
	double qz, kz, p, kl;
	logistic_tail(z, &qz, &kz);
	logistic_tail(l, &p, &kl);
	double a = (kz - kl) / p, h = p < 1e-4 ? 0.5 + p / 3 + p * p / 4 : (kl - p) / (p * p);
	double gz = 1 - 2 * qz / p, gl = 2 * (1 - p) * (a + h), dmu = -(gz + gl);
	return {y + s * (2 * a + h) + below, {dmu, 2 * a + h + y / s * (1 - gz) + l * dmu, 0}};
}

DEVICE score of_censored_logistic(double mu, double s, double y) {
	if (!(s >= 0) || is_nan(mu) || is_nan(y))
		return nothing();
	double below = larger(-y, 0);
	y = larger(y, 0);
	if (s == 0)
		return at_point(of_logistic(larger(mu, 0), 0, y), mu, below);
	double l = -mu / s, z = (y - mu) / s, qz, kz, ql, kl, other, up;
	logistic_tail(z, &qz, &kz);
	logistic_tail(l, &ql, &kl);
	logistic_tail(-l, &other, &up);
	double gz = 1 - 2 * qz, gl = -(1 - ql) * (1 - ql), g = l < 0 ? z + 2 * kz - up - ql : z - l + 2 * kz - kl - ql;
	return {s * g + below, {-(gz + gl), g - z * gz - l * gl, 0}};
}

DEVICE score score_of(const double *p, double y) {
	switch (FAMILY) {
	case normal:
		return of_normal(p[0], p[1], y);
	case truncated_normal:
		return of_truncated_normal(p[0], p[1], y);
	case censored_normal:
		return of_censored_normal(p[0], p[1], y);
	case zero_normal:
		return of_zero_normal(p[0], p[1], p[2], y);
	case log_normal:
		return of_log_normal(p[0], p[1], y);
	case logistic:
		return of_logistic(p[0], p[1], y);
	case truncated_logistic:
		return of_truncated_logistic(p[0], p[1], y);
	}
	return of_censored_logistic(p[0], p[1], y);
}

DEVICE double logistic_cdf(double z) {
	double e = exp(-fabs(z));
	return z < 0 ? e / (1 + e) : 1 / (1 + e);
}

DEVICE double truncated_normal_cdf(double mu, double sigma, double x) {
	double l = -mu / sigma, z = (x - mu) / sigma;
	if (l > mills_below)
		return 1 - exp(-0.5 * (z - l) * (z + l)) * mills(z) / mills(l);
	return 1 - normal_cdf(-z) / normal_cdf(-l);
}

// The distribution function, of which 2F − 1 is the derivative by the observation.
DEVICE double cdf_of(const double *p, double y) {
	if (y != y || p[0] != p[0] || p[1] != p[1] || !(p[FAMILY == zero_normal ? 2 : 1] >= 0) || FAMILY == zero_normal && !(p[0] >= 0 && p[0] <= 1))
		return NAN;
	if (FAMILY != normal && FAMILY != logistic && y < 0)
		return 0;
	double mu = p[0], s = p[1], q, k, r;
	switch (FAMILY) {
	case truncated_normal:
		return truncated_normal_cdf(mu, s, y);
	case zero_normal:
		return p[0] + (1 - p[0]) * truncated_normal_cdf(p[1], p[2], y);
	case log_normal:
		return y <= 0 ? 0 : normal_cdf((log(y) - mu) / s);
	case logistic:
	case censored_logistic:
		return logistic_cdf((y - mu) / s);
	case truncated_logistic:
		if (-mu / s > logistic_far)
			return -expm1(-y / s);
		logistic_tail((y - mu) / s, &q, &k);
		logistic_tail(-mu / s, &r, &k);
		return 1 - q / r;
	}
	return normal_cdf((y - mu) / s);
}

// The parameters of point t; `points` per sample.
DEVICE int64_t parameters(const float *par, int64_t t, int32_t count, int64_t points, double *p) {
	int64_t first = t / points * count * points + t % points;
	for (int k = 0; k < count; k++)
		p[k] = par[first + k * points] + 0.0f; // −0 becomes 0
	return first;
}

KERNEL score_values(const float *par, const float *y, float *out, int64_t n, int64_t points, int32_t count) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3] = {};
		parameters(par, t, count, points, p);
		out[t] = static_cast<float>(score_of(p, y[t]).value);
	}
}

KERNEL score_grads(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3] = {};
		int64_t first = parameters(par, t, count, points, p);
		score s = {};
		if (dy[t] != 0) // points without weight cost nothing
			s = score_of(p, y[t]);
		for (int k = 0; k < count; k++)
			out[first + k * points] = static_cast<float>(dy[t] * s.d[k]);
	}
}

KERNEL score_dys(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double p[3] = {};
		parameters(par, t, count, points, p);
		out[t] = static_cast<float>(dy[t] * (2 * cdf_of(p, y[t]) - 1));
	}
}

// The cross-entropy of a histogram of `count` logits and the number y of a bin.
KERNEL entropy_values(const float *x, const float *y, float *out, int64_t n, int64_t points, int32_t count) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		const float *at = x + t / points * count * points + t % points;
		float top = -INFINITY, sum = 0;
		for (int32_t k = 0; k < count; k++)
			top = at[k * points] > top || at[k * points] != at[k * points] ? at[k * points] : top;
		for (int32_t k = 0; k < count; k++)
			sum += expf(at[k * points] - top);
		out[t] = y[t] >= 0 && y[t] < count ? logf(sum) + (top - at[static_cast<int32_t>(y[t]) * points]) : NAN;
	}
}

KERNEL entropy_grads(const float *x, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t first = t / points * count * points + t % points;
		const float *at = x + first;
		float top = -INFINITY, sum = 0;
		for (int32_t k = 0; k < count; k++)
			top = at[k * points] > top || at[k * points] != at[k * points] ? at[k * points] : top;
		for (int32_t k = 0; k < count; k++)
			sum += expf(at[k * points] - top);
		bool in = y[t] >= 0 && y[t] < count;
		for (int32_t k = 0; k < count; k++) {
			float d = in ? expf(at[k * points] - top) / sum - (k == static_cast<int32_t>(y[t]) ? 1 : 0) : NAN;
			out[first + k * points] = dy[t] != 0 ? dy[t] * d : 0;
		}
	}
}
