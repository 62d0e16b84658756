#include "common.cuh"
// Fields between the plain layout, [N C P] with P points, and that with the channels last,
// [N P L] with L ≥ C lanes, those beyond C zero. A block turns a tile of 32 points and 32
// channels in shared memory, so that both sides are read and written along their rows.
// Grid: tiles of points, tiles of lanes, samples. Block: 32×8.

constexpr int tile = 32, rows = 8;

KERNEL to_last(const float *x, T *y, int32_t channels, int32_t lanes, int64_t points) {
	__shared__ float part[tile][tile + 1];
	int64_t p0 = static_cast<int64_t>(blockIdx.x) * tile;
	int c0 = blockIdx.y * tile;
	x += static_cast<int64_t>(blockIdx.z) * channels * points;
	y += static_cast<int64_t>(blockIdx.z) * lanes * points;
	for (int i = threadIdx.y; i < tile; i += rows) {
		int64_t p = p0 + threadIdx.x;
		int c = c0 + i;
		part[i][threadIdx.x] = c < channels && p < points ? x[c * points + p] : 0.0f;
	}
	__syncthreads();
	for (int i = threadIdx.y; i < tile; i += rows) {
		int64_t p = p0 + i;
		int c = c0 + threadIdx.x;
		if (c < lanes && p < points)
			store(y + p * lanes + c, part[threadIdx.x][i]);
	}
}

KERNEL to_plain(const T *x, float *y, int32_t channels, int32_t lanes, int64_t points) {
	__shared__ float part[tile][tile + 1];
	int64_t p0 = static_cast<int64_t>(blockIdx.x) * tile;
	int c0 = blockIdx.y * tile;
	x += static_cast<int64_t>(blockIdx.z) * lanes * points;
	y += static_cast<int64_t>(blockIdx.z) * channels * points;
	for (int i = threadIdx.y; i < tile; i += rows) {
		int64_t p = p0 + i;
		int c = c0 + threadIdx.x;
		part[i][threadIdx.x] = c < channels && p < points ? load(x + p * lanes + c) : 0.0f;
	}
	__syncthreads();
	for (int i = threadIdx.y; i < tile; i += rows) {
		int64_t p = p0 + threadIdx.x;
		int c = c0 + i;
		if (c < channels && p < points)
			y[c * points + p] = part[threadIdx.x][i];
	}
}
