#include "common.cuh"
// Sets: the m rows of a sample in x[samples][m][inner], point by point. A thread takes a
// point, holds its rows, SIZE of them, a power of two, and sorts them by a network of
// comparisons, so that sums over the rows do not depend on their order. What is no number
// does not take part in the sort; a flag marks it.

constexpr int unrolled = SIZE <= 64 ? SIZE : 1; // larger sets are in local memory

// A set: its rows, infinite beyond them, and whether one of them is no number.
struct rows {
	float v[SIZE];
	bool bad;
};

// take reads the rows lo up to hi of a set at x.
DEVICE void take(rows *r, const float *x, int64_t inner, int32_t lo, int32_t hi) {
	r->bad = false;
#pragma unroll unrolled
	for (int k = 0; k < SIZE; k++) {
		float v = k >= lo && k < hi ? x[k * inner] : INFINITY;
		r->bad = r->bad || v != v;
		r->v[k] = v;
	}
}

// Batcher's bitonic sort (1968, doi:10.1145/1468075.1468121).
DEVICE void sort(rows *r) {
#pragma unroll
	for (int run = 2; run <= SIZE; run *= 2) {
#pragma unroll
		for (int apart = run / 2; apart > 0; apart /= 2) {
#pragma unroll unrolled
			for (int i = 0; i < SIZE; i++) {
				int k = i ^ apart;
				if (k > i) {
					float a = r->v[i], b = r->v[k];
					bool swap = (i & run) == 0 ? b < a : a < b;
					r->v[i] = swap ? b : a;
					r->v[k] = swap ? a : b;
				}
			}
		}
	}
}

DEVICE double sum(const rows *r, int32_t m) {
	double s = 0;
#pragma unroll unrolled
	for (int k = 0; k < SIZE; k++)
		if (k < m)
			s += r->v[k];
	return s;
}

// Where the rows of the set of point t begin.
DEVICE int64_t first_row(int64_t t, int64_t inner, int32_t m) { return t / inner * m * inner + t % inner; }

enum { of_sum, of_mean, of_std, of_min, of_max };

KERNEL set_pool(const float *x, float *y, int64_t n, int64_t inner, int32_t m, int32_t kind) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		rows r;
		take(&r, x + first_row(t, inner, m), inner, 0, m);
		sort(&r);
		double s = sum(&r, m), q = 0;
		float top = 0;
		double mean = s / m;
#pragma unroll unrolled
		for (int k = 0; k < SIZE; k++) {
			if (k < m) {
				q += (r.v[k] - mean) * (r.v[k] - mean);
				top = r.v[k];
			}
		}
		float result = kind == of_sum ? static_cast<float>(s) : kind == of_mean ? static_cast<float>(mean)
			: kind == of_std ? static_cast<float>(sqrt(q / (m - 1))) : kind == of_min ? r.v[0] + 0.0f : top + 0.0f; // of two zeros the positive one
		y[t] = r.bad ? NAN : result;
	}
}

KERNEL set_std_grad(const float *x, const float *y, const float *dy, float *dx, int64_t n, int64_t inner, int32_t m) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t at = first_row(t, inner, m);
		rows r;
		take(&r, x + at, inner, 0, m);
		sort(&r);
		float mean = r.bad ? NAN : static_cast<float>(sum(&r, m) / m), factor = dy[t] / ((m - 1) * (y[t] < 1e-6f ? 1e-6f : y[t]));
		for (int k = 0; k < m; k++)
			dx[at + k * inner] = (x[at + k * inner] - mean) * factor;
	}
}

KERNEL set_extreme_grad(const float *x, const float *y, const float *dy, float *dx, int64_t n, int64_t inner, int32_t m) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t at = first_row(t, inner, m);
		float equal = 0;
		for (int k = 0; k < m; k++)
			equal += x[at + k * inner] == y[t] ? 1.0f : 0.0f;
		float share = dy[t] / equal;
		for (int k = 0; k < m; k++)
			dx[at + k * inner] = x[at + k * inner] == y[t] ? share : 0;
	}
}

// The sum of the distances of all pairs of m sorted rows, as Σ (2k − m + 1)(x_k − y).
DEVICE double spread(const rows *r, int32_t m, float y) {
	double s = 0;
#pragma unroll unrolled
	for (int k = 0; k < SIZE; k++)
		if (k < m)
			s += (2 * k - m + 1) * (static_cast<double>(r->v[k]) - y);
	return s;
}

// The distances of pairs count with the factor pair: of all of them, or if first is not 0
// of those between the first rows and the others.
KERNEL set_crps(const float *x, const float *y, float *score, int64_t n, int64_t inner, int32_t m, int32_t first, float pair) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		const float *at = x + first_row(t, inner, m);
		rows r;
		double between = 0, near = 0;
		for (int part = first > 0 ? 0 : 2; part < 3; part++) { // both groups, and all
			int32_t lo = part == 1 ? first : 0, hi = part == 0 ? first : m;
			take(&r, at, inner, lo, hi);
			sort(&r);
			double s = spread(&r, hi - lo, y[t]);
			between += part == 2 ? s : -s;
		}
#pragma unroll unrolled
		for (int k = 0; k < SIZE; k++)
			if (k < m)
				near += fabs(static_cast<double>(r.v[k]) - y[t]);
		score[t] = r.bad ? NAN : static_cast<float>(near / m - pair * between);
	}
}

// sign is the sign of a − b, also for infinite values: −1, 0, 1, or NaN.
DEVICE float sign(float a, float b) { return a > b ? 1 : a < b ? -1 : a == b ? 0 : NAN; }

KERNEL set_crps_grad(const float *x, const float *y, const float *dy, float *dx, int64_t n, int64_t inner, int32_t m, int32_t first, float pair) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t at = first_row(t, inner, m);
		rows r;
		take(&r, x + at, inner, 0, m);
		for (int i = 0; i < m; i++) {
			float v = x[at + i * inner], signs = 0;
			int32_t lo = first > 0 && i < first ? first : 0, hi = first > 0 && i >= first ? first : m;
#pragma unroll unrolled
			for (int k = 0; k < SIZE; k++)
				if (k >= lo && k < hi)
					signs += sign(v, r.v[k]);
			dx[at + i * inner] = r.bad ? NAN : dy[t] * (sign(v, y[t]) / m - pair * signs);
		}
	}
}
