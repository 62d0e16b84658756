#include "common.cuh"
#define T float
#include "conv.cuh"
// Convolutions whose points have filters of their own, [O C·taps P], in plain layout: every
// filter value takes part in one product for each sample, so that all is bound by reading
// the filters once. Neighbouring threads have neighbouring points, and a thread has SAMPLES
// samples at a time in registers.
// Grid: threads over points and channels of the result, groups of samples.

#define GEOMETRY int32_t samples, int32_t in_channels, int32_t out_channels, int32_t taps_d, int32_t taps_h, int32_t taps_w, int64_t in_points, int64_t points, AXIS(d), AXIS(h), AXIS(w)

// local_conv is y[n,o,p] = Σ_t Σ_c w[o,c,t,p] · x[n,c,p − pad + t].
KERNEL __launch_bounds__(256) local_conv(const float *x, const float *filters, float *y, int32_t rows_h, int32_t rows_w, GEOMETRY) {
	const axis d = AXIS_OF(d), h = AXIS_OF(h), w = AXIS_OF(w);
	const int64_t taps = static_cast<int64_t>(taps_d) * taps_h * taps_w;
	const int n0 = blockIdx.y * SAMPLES;
	for (int64_t i = thread_of_grid(); i < out_channels * points; i += threads_of_grid()) {
		int64_t o = i / points, p = i % points;
		int iw = p % rows_w, ih = p / rows_w % rows_h, id = p / rows_w / rows_h;
		float sums[SAMPLES] = {};
		int64_t t = 0;
		for (int td = 0; td < taps_d; td++)
			for (int th = 0; th < taps_h; th++)
				for (int tw = 0; tw < taps_w; tw++, t++) {
					int32_t a = source(d, id, td), b = source(h, ih, th), c = source(w, iw, tw);
					if ((a | b | c) < 0)
						continue;
					const float *from = x + (static_cast<int64_t>(a) * h.size + b) * w.size + c + n0 * in_channels * in_points;
					const float *f = filters + (o * in_channels * taps + t) * points + p;
					for (int k = 0; k < in_channels; k++) {
						float v = f[k * taps * points];
#pragma unroll
						for (int n = 0; n < SAMPLES; n++)
							if (n0 + n < samples)
								sums[n] += v * from[(n * static_cast<int64_t>(in_channels) + k) * in_points];
					}
				}
#pragma unroll
		for (int n = 0; n < SAMPLES; n++)
			if (n0 + n < samples)
				y[((n0 + n) * static_cast<int64_t>(out_channels) + o) * points + p] = sums[n];
	}
}

// local_conv_data is the adjoint for the data: of a point of x the products of all filter
// values that read it.
KERNEL __launch_bounds__(256) local_conv_data(const float *dy, const float *filters, float *dx, int32_t rows_h, int32_t rows_w, GEOMETRY) {
	const axis d = AXIS_OF(d), h = AXIS_OF(h), w = AXIS_OF(w);
	const int64_t taps = static_cast<int64_t>(taps_d) * taps_h * taps_w;
	const int n0 = blockIdx.y * SAMPLES;
	for (int64_t i = thread_of_grid(); i < in_channels * in_points; i += threads_of_grid()) {
		int64_t k = i / in_points, j = i % in_points;
		int iw = j % rows_w, ih = j / rows_w % rows_h, id = j / rows_w / rows_h;
		float sums[SAMPLES] = {};
		for (int vd = 0; vd < taps_d * d.turns; vd++)
			for (int vh = 0; vh < taps_h * h.turns; vh++)
				for (int vw = 0; vw < taps_w * w.turns; vw++) {
					int td = vd / d.turns, th = vh / h.turns, tw = vw / w.turns;
					int32_t a = reader(d, id, td, vd % d.turns), b = reader(h, ih, th, vh % h.turns), c = reader(w, iw, tw, vw % w.turns);
					if ((a | b | c) < 0)
						continue;
					int64_t p = (static_cast<int64_t>(a) * h.size + b) * w.size + c;
					int64_t t = (static_cast<int64_t>(td) * taps_h + th) * taps_w + tw;
					for (int o = 0; o < out_channels; o++) {
						float v = filters[((o * static_cast<int64_t>(in_channels) + k) * taps + t) * points + p];
#pragma unroll
						for (int n = 0; n < SAMPLES; n++)
							if (n0 + n < samples)
								sums[n] += v * dy[((n0 + n) * static_cast<int64_t>(out_channels) + o) * points + p];
					}
				}
#pragma unroll
		for (int n = 0; n < SAMPLES; n++)
			if (n0 + n < samples)
				dx[((n0 + n) * static_cast<int64_t>(in_channels) + k) * in_points + j] = sums[n];
	}
}

// local_conv_filter is the adjoint for the filters: one product for each sample.
KERNEL __launch_bounds__(256) local_conv_filter(const float *x, const float *dy, float *dw, int32_t rows_h, int32_t rows_w, GEOMETRY) {
	const axis d = AXIS_OF(d), h = AXIS_OF(h), w = AXIS_OF(w);
	const int64_t taps = static_cast<int64_t>(taps_d) * taps_h * taps_w;
	for (int64_t i = thread_of_grid(); i < out_channels * in_channels * taps * points; i += threads_of_grid()) {
		int64_t p = i % points, t = i / points % taps, k = i / points / taps % in_channels, o = i / points / taps / in_channels;
		int iw = p % rows_w, ih = p / rows_w % rows_h, id = p / rows_w / rows_h;
		int32_t a = source(d, id, t / taps_w / taps_h), b = source(h, ih, t / taps_w % taps_h), c = source(w, iw, t % taps_w);
		float sum = 0;
		if ((a | b | c) >= 0) {
			int64_t j = (static_cast<int64_t>(a) * h.size + b) * w.size + c;
			for (int64_t n = 0; n < samples; n++)
				sum += x[(n * in_channels + k) * in_points + j] * dy[(n * out_channels + o) * points + p];
		}
		dw[i] = sum;
	}
}
