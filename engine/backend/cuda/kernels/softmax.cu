#include "common.cuh"
// Softmax over groups of `size` values with stride `step`, a thread for each group.

// Where the group of thread t begins.
DEVICE int64_t group(int64_t t, int64_t step, int32_t size) { return t / step * size * step + t % step; }

KERNEL softmax(const float *x, float *y, int64_t n, int64_t step, int32_t size) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t at = group(t, step, size);
		float top = -INFINITY, sum = 0;
		for (int32_t k = 0; k < size; k++)
			top = fmaxf(top, x[at + k * step]);
		for (int32_t k = 0; k < size; k++)
			sum += expf(x[at + k * step] - top);
		for (int32_t k = 0; k < size; k++)
			y[at + k * step] = expf(x[at + k * step] - top) / sum;
	}
}

KERNEL softmax_grad(const float *y, const float *dy, float *dx, int64_t n, int64_t step, int32_t size) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t at = group(t, step, size);
		float sum = 0;
		for (int32_t k = 0; k < size; k++)
			sum += y[at + k * step] * dy[at + k * step];
		for (int32_t k = 0; k < size; k++)
			dx[at + k * step] = y[at + k * step] * (dy[at + k * step] - sum);
	}
}
