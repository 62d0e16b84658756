#include "common.cuh"
// The filter of a convolution of integers, w [O C taps], as a matrix of O rows in strided row block
// compressed rows (srbcrs.go). Column (block·taps + tap)·RUN + c is source channel block·RUN + c at a tap;
// neighbouring columns are kept or dropped in runs of RUN. Row r of panel p is result channel p·VECTOR + r.
// The scales of the source channels are in the values, which are quantised symmetrically with one scale
// for each row. The arithmetic is that of the reference, in float64, so values have no other rounding.

#define PACK_THREADS 256

// reduced joins a value of each thread of the block into one, which thread 0 gets.
template <class V, class F> DEVICE V reduced(V mine, F join) {
	__shared__ V all[PACK_THREADS];
	all[threadIdx.x] = mine;
	for (int half = PACK_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			all[threadIdx.x] = join(all[threadIdx.x], all[threadIdx.x + half]);
	}
	return all[0];
}

// The larger of two numbers; NaN if one is none.
DEVICE double larger(double a, double b) { return b > a || b != b ? b : a; }

// filter_scales gives the largest absolute value of each row. Grid: rows. Block: PACK_THREADS.
KERNEL __launch_bounds__(PACK_THREADS) filter_scales(const float *w, const float *scales, double *most, int32_t channels, int32_t taps) {
	const float *row = w + static_cast<int64_t>(blockIdx.x) * channels * taps;
	double mine = 0;
	for (int32_t i = threadIdx.x; i < channels * taps; i += PACK_THREADS) {
		double v = static_cast<double>(row[i]) * scales[i / taps];
		mine = larger(mine, v < 0 ? -v : v);
	}
	mine = reduced(mine, larger);
	if (threadIdx.x == 0)
		most[blockIdx.x] = mine;
}

// pack_filter writes the values of each row, its scale, and the sum of its values times the zero points of
// their channels, which is subtracted from products with codes. Channels from blocks0·RUN on belong to the
// second part. Grid: rows, those of whole panels. Block: PACK_THREADS.
KERNEL __launch_bounds__(PACK_THREADS) pack_filter(const float *w, const float *scales, const double *most, const int32_t *ptr, const int32_t *col, int8_t *values,
	float *scale, int32_t *minus, int32_t results, int32_t channels, int32_t taps, int32_t blocks0, int32_t zero0, int32_t zero1) {
	const int32_t o = blockIdx.x, panel = o / VECTOR, r = o % VECTOR, first = ptr[2 * panel], end = ptr[2 * panel + 1];
	const float *row = w + static_cast<int64_t>(o) * channels * taps;
	const double top = o < results ? most[o] : 0;
	int32_t sum = 0;
	for (int32_t s = first + threadIdx.x; s < first + (end - first + STRIDE - 1) / STRIDE * STRIDE; s += PACK_THREADS) {
		int32_t q = 0, column = col[s / RUN];
		if (column >= 0 && top > 0) {
			int32_t run = column / RUN, block = run / taps, c = block * RUN + s % RUN;
			if (c < channels)
				q = static_cast<int32_t>(rint(static_cast<double>(row[static_cast<int64_t>(c) * taps + run % taps]) * scales[c] * 127 / top));
			sum += q * (block < blocks0 ? zero0 : zero1);
		}
		values[static_cast<int64_t>(s / STRIDE) * (VECTOR * STRIDE) + r * STRIDE + s % STRIDE] = static_cast<int8_t>(q);
	}
	sum = reduced(sum, [](int32_t a, int32_t b) { return a + b; });
	if (threadIdx.x == 0) {
		scale[o] = static_cast<float>(top / 127);
		minus[o] = sum;
	}
}
