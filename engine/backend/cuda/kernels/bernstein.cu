#include "common.cuh"
// Scores of quantile functions that are polynomials with Bernstein coefficients, whose number
// is that of the parameters: the formulas of postproc/dist/bernstein.go. The CRPS is in
// double; the pinball loss reads the polynomials at its levels, [levels][count], from memory.

constexpr int most_count = 64; // coefficients

// The coefficients of point t; `points` per sample; and their first index.
DEVICE int64_t coefficients(const float *par, int64_t t, int32_t count, int64_t points, double *a) {
	int64_t first = t / points * count * points + t % points;
	for (int j = 0; j < count; j++)
		a[j] = par[first + j * points];
	return first;
}

// B_{j,d}(t), the first, and from each the next.
DEVICE double first_polynomial(int d, double t) { return t == 1 ? (d == 0 ? 1 : 0) : pow(1 - t, static_cast<double>(d)); }
DEVICE double next_polynomial(double b, int j, int d, double t) { return t == 1 ? (j + 1 == d ? 1 : 0) : b * (static_cast<double>(d - j) / (j + 1) * t / (1 - t)); }

DEVICE double quantile(const double *a, int count, double t) {
	double sum = 0, b = first_polynomial(count - 1, t);
	for (int j = 0; j < count; j++) {
		sum += a[j] * b;
		b = next_polynomial(b, j, count - 1, t);
	}
	return sum;
}

// or_nan is x, or NaN if a coefficient is NaN.
DEVICE double or_nan(const double *a, int count, double x) {
	for (int j = 0; j < count; j++)
		x = a[j] != a[j] ? a[j] : x;
	return x;
}

DEVICE double cdf(const double *a, int count, double x) {
	x = or_nan(a, count, x);
	if (x != x)
		return x;
	if (x <= a[0])
		return 0;
	if (x >= a[count - 1])
		return 1;
	double low = 0, high = 1;
	for (int k = 0; k < 60; k++) { // halving: below 1e-16 of the probability
		double middle = (low + high) / 2;
		if (quantile(a, count, middle) < x)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

// The CRPS, and da its derivatives, of the polynomial, or of it censored at 0.
DEVICE double score_of(const double *a, int count, double y, bool censored, double *da) {
	y = or_nan(a, count, y);
	if (y != y) {
		for (int j = 0; j < count; j++)
			da[j] = y;
		return y;
	}
	int d = count - 1;
	double below = censored && y < 0 ? -y : 0;
	if (censored && y < 0)
		y = 0;
	double t = cdf(a, count, y), crps = below, above = 0, b = first_polynomial(d + 1, t);
	for (int j = 0; j <= d; j++) {
		above += b;
		double g = 2.0 / (d + 1) * (above - static_cast<double>(j + 1) / (d + 2));
		crps += (a[j] - y) * g; // Σ da_j = 1−2t: y shifts nothing, but keeps digits
		da[j] = g;
		b = next_polynomial(b, j, d + 1, t);
	}
	if (!censored || a[0] >= 0)
		return crps;
	double zero = cdf(a, count, 0), up_to = 0;
	b = first_polynomial(d + 2, zero);
	for (int i = 0; i <= d + 1; i++) {
		up_to += b;
		if (i > 0) {
			double left = 1 - up_to, g = 2 * static_cast<double>(i) / (d + 1) * (left > 0 ? left : 0) / (d + 2);
			crps += a[i - 1] * g;
			da[i - 1] += g;
		}
		b = next_polynomial(b, i, d + 2, zero);
	}
	return crps;
}

KERNEL bernstein_values(const float *par, const float *y, float *out, int64_t n, int64_t points, int32_t count, int32_t censored) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double a[most_count], da[most_count];
		coefficients(par, t, count, points, a);
		out[t] = static_cast<float>(score_of(a, count, y[t], censored, da));
	}
}

KERNEL bernstein_grads(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count, int32_t censored) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double a[most_count], da[most_count];
		int64_t first = coefficients(par, t, count, points, a);
		if (dy[t] != 0) // points without weight cost nothing
			score_of(a, count, y[t], censored, da);
		for (int j = 0; j < count; j++)
			out[first + j * points] = dy[t] != 0 ? static_cast<float>(dy[t] * da[j]) : 0;
	}
}

KERNEL bernstein_dys(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count, int32_t censored) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		double a[most_count];
		coefficients(par, t, count, points, a);
		double f = censored && or_nan(a, count, y[t]) < 0 ? 0 : cdf(a, count, y[t]);
		out[t] = static_cast<float>(dy[t] * (2 * f - 1));
	}
}

// The quantile of a level, and whether it is cut off at 0.
DEVICE float quantile_at(const float *par, const float *basis, int32_t count, int64_t points, bool censored, bool *cut) {
	float q = 0;
	for (int32_t j = 0; j < count; j++)
		q += basis[j] * par[j * points];
	*cut = censored && q < 0;
	return *cut ? 0 : q;
}

DEVICE float slope_of(float q, float y, float tau) { return y > q ? -tau : y < q ? 1 - tau : 0.5f - tau; }

KERNEL pinball_values(const float *par, const float *y, float *out, int64_t n, int64_t points, int32_t count, int32_t censored, const float *basis, int32_t levels) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		const float *a = par + t / points * count * points + t % points;
		float sum = 0;
		for (int32_t i = 0; i < levels; i++) {
			bool cut;
			float d = y[t] - quantile_at(a, basis + i * count, count, points, censored, &cut), tau = (i + 1.0f) / (levels + 1);
			sum += d > 0 ? tau * d : d < 0 ? (tau - 1) * d : d;
		}
		out[t] = 2.0f / levels * sum;
	}
}

KERNEL pinball_grads(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count, int32_t censored, const float *basis,
		int32_t levels) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t first = t / points * count * points + t % points;
		float da[most_count];
		for (int32_t j = 0; j < count; j++)
			da[j] = y[t] != y[t] ? y[t] : 0;
		for (int32_t i = 0; i < levels; i++) {
			bool cut;
			float slope = slope_of(quantile_at(par + first, basis + i * count, count, points, censored, &cut), y[t], (i + 1.0f) / (levels + 1));
			for (int32_t j = 0; j < count && !cut; j++)
				da[j] += slope * basis[i * count + j];
		}
		for (int32_t j = 0; j < count; j++)
			out[first + j * points] = dy[t] != 0 ? dy[t] * (2.0f / levels) * da[j] : 0;
	}
}

KERNEL pinball_dys(const float *par, const float *y, const float *dy, float *out, int64_t n, int64_t points, int32_t count, int32_t censored, const float *basis,
		int32_t levels) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		const float *a = par + t / points * count * points + t % points;
		float sum = 0;
		for (int32_t i = 0; i < levels; i++) {
			bool cut;
			sum -= slope_of(quantile_at(a, basis + i * count, count, points, censored, &cut), y[t], (i + 1.0f) / (levels + 1));
		}
		out[t] = dy[t] * (2.0f / levels) * sum;
	}
}
