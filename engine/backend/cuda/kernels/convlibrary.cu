#include "wide.cuh"
// What a convolution of a library needs besides: it takes one field without periodic axes, a
// filter with its channels last, and gives a bare sum. T is the type of fields and filters.

// Joins the parts of a field along their lanes, each row of which begins with the last and
// ends with the first `pad` points of the row, for a periodic last axis. A thread copies eight
// lanes. units are eighths of lanes.
KERNEL pad_periodic(const T *x0, const T *x1, T *y, int32_t units0, int32_t units1, int64_t rows, int32_t size, int32_t pad) {
	int32_t units = units0 + units1, wide = size + 2 * pad;
	int64_t n = rows * wide * units;
	for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
		int32_t unit = static_cast<int32_t>(i % units);
		int64_t p = i / units;
		int64_t row = p / wide;
		int32_t at = static_cast<int32_t>(p % wide) - pad;
		at = (at % size + size) % size;
		const T *from = unit < units0 ? x0 + ((row * size + at) * units0 + unit) * 8 : x1 + ((row * size + at) * units1 + unit - units0) * 8;
		float v[8];
		load8(from, v);
		store8(y + i * 8, v);
	}
}

// The plain filter w [. channels taps] as [results taps lanes]: lane l is channel l of the
// first part, which has c0 in l0 lanes, or one of the second, which has c1. With ADJOINT it is
// the filter of the adjoint, whose taps are in reverse: result r is channel lo + r of w, and
// lane l its result l. Other lanes are zero.
KERNEL filter(const float *w, T *y, int32_t results, int32_t room, int32_t channels, int32_t taps, int32_t c0, int32_t l0, int32_t c1, int32_t lanes, int32_t lo) {
	int64_t n = static_cast<int64_t>(room) * taps * lanes;
	for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
		int32_t l = static_cast<int32_t>(i % lanes), t = static_cast<int32_t>(i / lanes % taps), r = static_cast<int32_t>(i / lanes / taps);
		int32_t c = l < l0 ? (l < c0 ? l : -1) : (l - l0 < c1 ? c0 + l - l0 : -1);
		float v = 0;
		if (r < results && c >= 0) {
#if ADJOINT
			v = w[(static_cast<int64_t>(c) * channels + lo + r) * taps + taps - 1 - t];
#else
			v = w[(static_cast<int64_t>(r) * channels + c) * taps + t];
#endif
		}
		store(y + i, v);
	}
}

// The gradient of a filter as a library gives it, [. taps lanes] in float32, as plain [results
// channels taps].
KERNEL filter_grad(const float *g, float *out, int32_t results, int32_t channels, int32_t taps, int32_t c0, int32_t l0, int32_t lanes) {
	int64_t n = static_cast<int64_t>(results) * channels * taps;
	for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
		int32_t t = static_cast<int32_t>(i % taps), c = static_cast<int32_t>(i / taps % channels), r = static_cast<int32_t>(i / taps / channels);
		int32_t l = c < c0 ? c : l0 + c - c0;
		out[i] = g[(static_cast<int64_t>(r) * taps + t) * lanes + l];
	}
}

// out = sum + bias + plus, at least 0 with relu, kept where gate > 0; bias, plus and gate may be
// nil. out may be any of sum, plus and gate. A point has so many eighths of lanes, as many lanes as the bias.
KERNEL finish(const T *sum, const float *bias, const T *plus, const T *gate, T *out, int64_t eighths, int32_t of_point, int32_t relu) {
	for (int64_t i = thread_of_grid(); i < eighths; i += threads_of_grid()) {
		float v[8], u[8];
		load8(sum + i * 8, v);
		if (bias) {
			load8(bias + i % of_point * 8, u);
			for (int k = 0; k < 8; k++)
				v[k] += u[k];
		}
		if (plus) {
			load8(plus + i * 8, u);
			for (int k = 0; k < 8; k++)
				v[k] += u[k];
		}
		if (gate) {
			load8(gate + i * 8, u);
			for (int k = 0; k < 8; k++)
				v[k] = u[k] > 0 ? v[k] : 0;
		}
		if (relu)
			for (int k = 0; k < 8; k++)
				v[k] = v[k] > 0 || v[k] != v[k] ? v[k] : 0;
		store8(out + i * 8, v);
	}
}
