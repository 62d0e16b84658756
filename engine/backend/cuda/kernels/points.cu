#include "parts.cuh"
// Normalisation of the channels of each point of a plain field [N C P], a thread for a point:
// neighbours read neighbours.

// A point: the index of its first channel, and the mean and the root of one over the
// variance of its channels, by Welford's recurrence on distances from the first.
struct point {
	int64_t at;
	float mean, r;
};

DEVICE point point_of(const float *x, int64_t t, int32_t channels, int64_t points, float eps) {
	point p;
	p.at = t / points * channels * points + t % points;
	float first = x[p.at], mean = 0, squares = 0;
	for (int32_t c = 1; c < channels; c++) {
		float v = x[p.at + c * points] - first, d = v - mean;
		mean += d / (c + 1);
		squares += d * (v - mean);
	}
	p.mean = first + mean;
	float variance = squares / channels + eps;
	p.r = 1 / sqrtf(variance) + (variance - variance); // a variance beyond float32 gives NaN, not the root's 0
	return p;
}

KERNEL point_norm(const float *x, const float *gamma, const float *beta, float *y, int64_t n, int32_t channels, int64_t points, float eps) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		point p = point_of(x, t, channels, points, eps);
		for (int32_t c = 0; c < channels; c++)
			y[p.at + c * points] = (x[p.at + c * points] - p.mean) * p.r * gamma[c] + beta[c];
	}
}

KERNEL point_norm_grad(const float *x, const float *dy, const float *gamma, float *dx, int64_t n, int32_t channels, int64_t points, float eps) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		point p = point_of(x, t, channels, points, eps);
		float sum = 0, dot = 0;
		for (int32_t c = 0; c < channels; c++) {
			float g = dy[p.at + c * points] * gamma[c];
			sum += g;
			dot += g * (x[p.at + c * points] - p.mean) * p.r;
		}
		sum /= channels;
		dot /= channels;
		for (int32_t c = 0; c < channels; c++)
			dx[p.at + c * points] = p.r * (dy[p.at + c * points] * gamma[c] - sum - (x[p.at + c * points] - p.mean) * p.r * dot);
	}
}

// The means of the points, then the roots of one over the variances.
KERNEL point_stats(const float *x, float *stats, int64_t n, int32_t channels, int64_t points, float eps) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		point p = point_of(x, t, channels, points, eps);
		stats[t] = p.mean;
		stats[n + t] = p.r;
	}
}

// Sums of dy and of dy·x̂, of points with a mean and a factor each: stats, of all samples.
KERNEL __launch_bounds__(256) point_parts(const float *x, const float *dy, const float *stats, float *parts, int32_t channels, int32_t lanes, int64_t points,
		int32_t each, int32_t count, int64_t all) {
	walk w = begin_walk(channels, lanes, points, each);
	sums mine = {};
	stats += (w.plane / points - w.c) / channels * points;
	for (int64_t i = 0, p = w.point; i < w.count; i++, p += w.step) {
		float g = load(dy + w.plane + p);
		mine.a += g;
		mine.b += g * (load(x + w.plane + p) - stats[p]) * stats[all + p];
	}
	leave<add_sums>(w, &mine, parts, channels, count, part_of_block(channels, points, each));
}
