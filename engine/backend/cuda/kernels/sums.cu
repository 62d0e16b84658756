#include "common.cuh"
// Sums over any axes. A block takes as many results as it is wide, and of each a part of
// the values that are summed: its threads along y take them in turns, in double, and are
// joined in a tree. Parts are summed in a second call, as values of another axis. T is
// the type of x.

constexpr int most = 256; // threads of a block

// The offset of element i of four axes.
DEVICE int64_t place(int64_t i, int32_t n1, int32_t n2, int32_t n3, int64_t s0, int64_t s1, int64_t s2, int64_t s3) {
	const int32_t n[3] = {n3, n2, n1};
	const int64_t s[3] = {s3, s2, s1};
	int64_t at = 0;
#pragma unroll
	for (int k = 0; k < 3; k++) {
		if (n[k] == 1)
			continue;
		int32_t rest;
		i = divided(i, n[k], &rest);
		at += rest * s[k];
	}
	return at + i * s0;
}

// Results: kept of them, along axes of which those but the first have the sizes k1 to k3,
// with distances a in x and b in y. Summed: count values, along axes n with distances s,
// each of them in one part. Part i of a result is at offset i·kept.
KERNEL __launch_bounds__(256) sum_box(const T *x, float *y, int64_t kept, int32_t k1, int32_t k2, int32_t k3, int64_t a0, int64_t a1, int64_t a2, int64_t a3,
		int64_t b0, int64_t b1, int64_t b2, int64_t b3, int64_t count, int32_t n1, int32_t n2, int32_t n3, int64_t s0, int64_t s1, int64_t s2, int64_t s3,
		int64_t each) {
	__shared__ double all[most];
	int64_t result = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
	double sum = 0;
	if (result < kept) {
		x += place(result, k1, k2, k3, a0, a1, a2, a3);
		int64_t end = (blockIdx.y + 1) * each;
		if (end > count)
			end = count;
		for (int64_t i = blockIdx.y * each + threadIdx.y; i < end; i += blockDim.y)
			sum += load(x + place(i, n1, n2, n3, s0, s1, s2, s3));
	}
	int me = threadIdx.y * blockDim.x + threadIdx.x;
	all[me] = sum;
	for (int half = blockDim.y / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			all[me] += all[me + half * blockDim.x];
	}
	if (threadIdx.y == 0 && result < kept)
		y[blockIdx.y * kept + place(result, k1, k2, k3, b0, b1, b2, b3)] = static_cast<float>(all[me]);
}
