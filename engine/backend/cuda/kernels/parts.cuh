// Sums per channel in two kernels: every block of the first leaves the sums of its points by
// channel, [C][parts]; a block of the second joins those of one channel, in double, always
// in the same order.
#pragma once
#include "field.cuh"

constexpr int most = 256; // threads of a block

// Sums of two kinds, or the mean and the sum of squared distances of n values.
struct sums {
	float n, a, b;
};

DEVICE void add_sums(sums *x, sums y) {
	x->n += y.n;
	x->a += y.a;
	x->b += y.b;
}

// Means and squared distances are joined by the formula of Chan et al. (1979).
DEVICE void add_moments(sums *x, sums y) {
	float n = x->n + y.n;
	if (y.n == 0)
		return;
	float d = y.a - x->a;
	x->a += d * (y.n / n);
	x->b += y.b + d * d * (x->n * (y.n / n));
	x->n = n;
}

// leave joins what the threads of a block have, in the order of their points, and leaves
// it as this block's part.
template <void join(sums *, sums)> DEVICE void leave(walk w, sums *mine, float *parts, int32_t channels, int32_t count, int32_t part) {
	__shared__ sums all[width][most];
	int columns = width == 1 ? 1 : blockDim.x, rows = width == 1 ? blockDim.x : blockDim.y, me = threadIdx.y * blockDim.x + threadIdx.x, row = me / columns;
#pragma unroll
	for (int k = 0; k < width; k++)
		all[k][me] = mine[k];
	int half = 1;
	while (half < rows)
		half *= 2;
	for (half /= 2; half > 0; half /= 2) {
		__syncthreads();
		if (row < half && row + half < rows) {
#pragma unroll
			for (int k = 0; k < width; k++)
				join(&all[k][me], all[k][me + half * columns]);
		}
	}
	if (row > 0)
		return;
#pragma unroll
	for (int k = 0; k < width; k++) {
		if (w.c + k < channels) {
			float *to = parts + (static_cast<int64_t>(w.c + k) * count + part) * 3;
			to[0] = all[k][me].n;
			to[1] = all[k][me].a;
			to[2] = all[k][me].b;
		}
	}
}

// The number of this block's part, of those of its channels.
DEVICE int32_t part_of_block(int32_t channels, int64_t points, int32_t each) {
#ifdef LAST
	return blockIdx.x;
#else
	int32_t pieces = static_cast<int32_t>((points + each - 1) / each), piece, c;
	int64_t plane = divided(blockIdx.x, pieces, &piece);
	return static_cast<int32_t>(divided(plane, channels, &c)) * pieces + piece;
#endif
}

// Parts of one channel in double.
struct joined {
	double n, a, b;
};

DEVICE void join_parts(joined *x, joined y, bool moments) {
	if (!moments) {
		x->a += y.a;
		x->b += y.b;
		return;
	}
	if (y.n == 0)
		return;
	double n = x->n + y.n, d = y.a - x->a;
	x->a += d * (y.n / n);
	x->b += y.b + d * d * (x->n * (y.n / n));
	x->n = n;
}

// gather joins the parts of channel blockIdx.x; the first thread has the result.
DEVICE joined gather(const float *parts, int32_t count, bool moments) {
	__shared__ joined all[most];
	parts += static_cast<int64_t>(blockIdx.x) * count * 3;
	joined mine = {};
	for (int i = threadIdx.x; i < count; i += blockDim.x)
		join_parts(&mine, {parts[3 * i], parts[3 * i + 1], parts[3 * i + 2]}, moments);
	all[threadIdx.x] = mine;
	for (int half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			join_parts(&all[threadIdx.x], all[threadIdx.x + half], moments);
	}
	return all[0];
}
