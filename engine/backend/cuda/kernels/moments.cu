#include "common.cuh"
// Moments of channels over all ranks, from those of each rank's part: few values, so in double.

// all [parts 2 channels]: mean and variance (divisor n); y [2 channels] of all together. Part k
// has counts[k] values of each channel.
//
// Source: Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773, equation 2.1.
KERNEL join_moments(const float *all, const int64_t *counts, float *y, int32_t channels, int32_t parts) {
	for (int64_t c = thread_of_grid(); c < channels; c += threads_of_grid()) {
		double n = 0, mean = 0, squares = 0;
		for (int32_t k = 0; k < parts; k++) {
			const float *part = all + static_cast<int64_t>(k) * 2 * channels;
			double m = static_cast<double>(counts[k]), d = static_cast<double>(part[c]) - mean;
			double both = n + m;
			mean = mean + d * m / both;
			squares = squares + static_cast<double>(part[channels + c]) * m + d * d * n * m / both;
			n = both;
		}
		y[c] = static_cast<float>(mean);
		y[channels + c] = static_cast<float>(squares / n);
	}
}
