#include "parts.cuh"
// Sums and maps per channel: bias, batch normalisation, and their gradients.
// The mean and variance come from Welford's recurrence, on distances from the first value of the
// channel.

// ---- maps ----

KERNEL __launch_bounds__(256) bias(const T *x, const float *shift, T *y, int32_t channels, int32_t lanes, int64_t points, int32_t each) {
	walk w = begin_walk(channels, lanes, points, each);
	float b[width];
#pragma unroll
	for (int k = 0; k < width; k++)
		b[k] = w.c + k < channels ? shift[w.c + k] : 0;
	map_points(x, y, w, lanes, [&](float v, int k) { return v + b[k]; });
}

// The channel of a lane, the last one for lanes beyond: what is computed there is put
// to zero.
DEVICE int within(int c, int32_t channels) { return c < channels ? c : channels - 1; }

KERNEL __launch_bounds__(256) channel_norm(const T *x, const float *moments, const float *gamma, const float *beta, T *y, int32_t channels, int32_t lanes,
		int64_t points, int32_t each, float eps, int32_t relu) {
	walk w = begin_walk(channels, lanes, points, each);
	float mean[width], r[width], shift[width];
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(w.c + k, channels);
		bool in = w.c + k < channels;
		mean[k] = in ? moments[c] : 0;
		r[k] = in ? gamma[c] / sqrtf(moments[channels + c] + eps) : 0;
		shift[k] = in ? beta[c] : 0;
	}
	map_points(x, y, w, lanes, [&](float v, int k) {
		v = (v - mean[k]) * r[k] + shift[k];
		return relu && !(v > 0) && v == v ? 0 : v;
	});
}

KERNEL __launch_bounds__(256) norm_grad(const T *dy, const float *moments, const float *gamma, T *dx, int32_t channels, int32_t lanes, int64_t points,
		int32_t each, float eps) {
	walk w = begin_walk(channels, lanes, points, each);
	float r[width];
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(w.c + k, channels);
		r[k] = w.c + k < channels ? gamma[c] / sqrtf(moments[channels + c] + eps) : 0;
	}
	map_points(dy, dx, w, lanes, [&](float v, int k) { return v * r[k]; });
}

KERNEL __launch_bounds__(256) moments_grad(const T *x, const float *moments, const float *d, T *dx, int32_t channels, int32_t lanes, int64_t points,
		int32_t each, float share) {
	walk w = begin_walk(channels, lanes, points, each);
	float mean[width], slope[width], shift[width];
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(w.c + k, channels);
		bool in = w.c + k < channels;
		mean[k] = in ? moments[c] : 0;
		slope[k] = in ? 2 * share * d[channels + c] : 0;
		shift[k] = in ? share * d[c] : 0;
	}
	map_points(x, dx, w, lanes, [&](float v, int k) { return (v - mean[k]) * slope[k] + shift[k]; });
}

// ---- a gradient that may be part of a wider field and come through ReLU ----

// Where the normalisation in front of ReLU is positive, computed as in channel_norm. It is
// everywhere without beta.
struct gate {
	float mean[width], r[width], shift[width];
	bool given;
};

DEVICE gate gate_of(const float *moments, const float *gamma, const float *beta, int first, int32_t channels, float eps) {
	gate g;
	g.given = beta;
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(first + k, channels);
		g.mean[k] = moments[c];
		g.r[k] = beta ? gamma[c] / sqrtf(moments[channels + c] + eps) : 0;
		g.shift[k] = beta ? beta[c] : 0;
	}
	return g;
}

// Sets the values of v to 0 where the gate of x is closed.
DEVICE void count_open(const gate &g, const float *x, float *v) {
	if (!g.given)
		return;
#pragma unroll
	for (int k = 0; k < width; k++)
		if (!((x[k] - g.mean[k]) * g.r[k] + g.shift[k] > 0))
			v[k] = 0;
}

// The values of dy, of a field of so many lanes, whose others are of no concern.
DEVICE void read_counting(const T *dy, bool whole, int left, float *v) {
#ifdef LAST
	if (whole) {
		load8(dy, v);
	} else {
#pragma unroll
		for (int k = 0; k < width; k++)
			v[k] = k < left ? load(dy + k) : 0;
	}
#else
	v[0] = load(dy);
#endif
#pragma unroll
	for (int k = 0; k < width; k++)
		if (k >= left)
			v[k] = 0;
}

KERNEL __launch_bounds__(256) norm_fused_grad(const T *x, const float *moments, const float *gamma, const float *sums, const T *dy, const float *beta, T *dx,
		int32_t channels, int32_t lanes, int64_t points, int32_t each, int32_t lanes_dy, int32_t whole, float eps, float share) {
	walk w = begin_walk(channels, lanes, points, each);
	float mean[width], slope[width], along[width], shift[width];
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(w.c + k, channels);
		bool in = w.c + k < channels;
		float r = 1 / sqrtf(moments[channels + c] + eps);
		mean[k] = in ? moments[c] : 0;
		slope[k] = in ? gamma[c] * r : 0;
		along[k] = in ? sums[channels + c] * share * r : 0;
		shift[k] = in ? sums[c] * share : 0;
	}
	gate open = gate_of(moments, gamma, beta, w.c, channels, eps);
	int64_t at = first_of(w, lanes), step = step_of(w, lanes), from = first_of(w, lanes_dy), stride = step_of(w, lanes_dy);
	constexpr int many = 2; // read at a time
	for (int64_t i = 0; i < w.count; i += many, at += many * step, from += many * stride) {
		float v[many][width], g[many][width];
#pragma unroll
		for (int j = 0; j < many; j++) {
			if (i + j < w.count) {
				read(x + at + j * step, v[j]);
				read_counting(dy + from + j * stride, whole, channels - w.c, g[j]);
				count_open(open, v[j], g[j]);
			}
		}
#pragma unroll
		for (int j = 0; j < many; j++) {
#pragma unroll
			for (int k = 0; k < width; k++)
				v[j][k] = slope[k] * (g[j][k] - shift[k] - (v[j][k] - mean[k]) * along[k]);
			if (i + j < w.count)
				write(dx + at + j * step, v[j]);
		}
	}
}

KERNEL norm_moments_grad(const float *moments, const float *gamma, const float *sums, float *d, int32_t channels, float eps) {
	int64_t c = thread_of_grid();
	if (c >= channels)
		return;
	float r = 1 / sqrtf(moments[channels + c] + eps), factor = gamma[c] * r;
	d[c] = -factor * sums[c];
	d[channels + c] = -0.5f * factor * r * sums[channels + c];
}

// ---- sums ----

// The first value of the channels, from which distances are taken.
DEVICE void first_values(const T *x, walk w, int32_t channels, int64_t points, float *v) {
#pragma unroll
	for (int k = 0; k < width; k++) {
		int c = within(w.c + k, channels);
#ifdef LAST
		v[k] = load(x + c);
#else
		v[k] = load(x + c * points);
#endif
	}
}

KERNEL __launch_bounds__(256) moments_parts(const T *x, float *parts, int32_t channels, int32_t lanes, int64_t points, int32_t each, int32_t count) {
	walk w = begin_walk(channels, lanes, points, each);
	float from[width];
	first_values(x, w, channels, points, from);
	sums mine[width] = {};
	each_point(x, w, lanes, [&](float *v, int64_t i) {
		float share = 1 / static_cast<float>(i + 1);
#pragma unroll
		for (int k = 0; k < width; k++) {
			float d = v[k] - from[k] - mine[k].a;
			mine[k].a += d * share;
			mine[k].b += d * (v[k] - from[k] - mine[k].a);
		}
	});
#pragma unroll
	for (int k = 0; k < width; k++)
		mine[k].n = static_cast<float>(w.count);
	leave<add_moments>(w, mine, parts, channels, count, part_of_block(channels, points, each));
}

KERNEL __launch_bounds__(256) channel_parts(const T *x, float *parts, int32_t channels, int32_t lanes, int64_t points, int32_t each, int32_t count) {
	walk w = begin_walk(channels, lanes, points, each);
	sums mine[width] = {};
	each_point(x, w, lanes, [&](float *v, int64_t) {
#pragma unroll
		for (int k = 0; k < width; k++)
			mine[k].a += v[k];
	});
	leave<add_sums>(w, mine, parts, channels, count, part_of_block(channels, points, each));
}

KERNEL __launch_bounds__(256) norm_parts(const T *x, const float *moments, const T *dy, const float *gamma, const float *beta, float *parts,
		int32_t channels, int32_t lanes, int64_t points, int32_t each, int32_t count, int32_t lanes_dy, int32_t whole, float eps) {
	walk w = begin_walk(channels, lanes, points, each);
	gate open = gate_of(moments, gamma, beta, w.c, channels, eps);
	sums mine[width] = {};
	int64_t at = first_of(w, lanes), step = step_of(w, lanes), from = first_of(w, lanes_dy), stride = step_of(w, lanes_dy);
#pragma unroll 2
	for (int64_t i = 0; i < w.count; i++, at += step, from += stride) {
		float v[width], g[width];
		read(x + at, v);
		read_counting(dy + from, whole, channels - w.c, g);
		count_open(open, v, g);
#pragma unroll
		for (int k = 0; k < width; k++) {
			mine[k].a += g[k];
			mine[k].b += g[k] * (v[k] - open.mean[k]);
		}
	}
	leave<add_sums>(w, mine, parts, channels, count, part_of_block(channels, points, each));
}

KERNEL __launch_bounds__(256) moments_join(const float *parts, const T *x, float *y, int32_t channels, int64_t points, int32_t count) {
	joined s = gather(parts, count, true);
	if (threadIdx.x > 0)
		return;
	int c = blockIdx.x;
#ifdef LAST
	float first = load(x + c);
#else
	float first = load(x + c * points);
#endif
	y[c] = static_cast<float>(first + s.a);
	y[channels + c] = static_cast<float>(s.b / s.n);
}

// The first sums, and if second is not 0 the others, at that offset.
KERNEL __launch_bounds__(256) channel_join(const float *parts, float *y, int32_t count, int32_t second) {
	joined s = gather(parts, count, false);
	if (threadIdx.x > 0)
		return;
	y[blockIdx.x] = static_cast<float>(s.a);
	if (second > 0)
		y[second + blockIdx.x] = static_cast<float>(s.b);
}

KERNEL __launch_bounds__(256) norm_join(const float *parts, const float *moments, float *y, int32_t channels, int32_t count, float eps) {
	joined s = gather(parts, count, false);
	if (threadIdx.x > 0)
		return;
	int c = blockIdx.x;
	y[c] = static_cast<float>(s.a);
	y[channels + c] = static_cast<float>(s.b / sqrt(static_cast<double>(moments[channels + c]) + eps));
}
