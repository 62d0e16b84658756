#include "field.cuh"
// Pooling and upsampling, with their gradients, which gather: every thread makes the values
// of one point of the result, of one channel or eight lanes, so that no two threads write
// to one place.

// A field: samples, channels or groups of lanes, and its last three axes.
struct box {
	int32_t channels, depth, height, row; // channels count by width
};

// A point of a field.
struct spot {
	int64_t sample;
	int32_t c, d, h, w;
};

// The point of element i of a field, as a thread counts them.
DEVICE spot spot_of(int64_t i, box f) {
	spot s;
#ifdef LAST
	i = divided(i, f.channels, &s.c);
#endif
	i = divided(i, f.row, &s.w);
	i = divided(i, f.height, &s.h);
	i = divided(i, f.depth, &s.d);
#ifndef LAST
	i = divided(i, f.channels, &s.c);
#endif
	s.sample = i;
	return s;
}

// Where the values of sample and channels of a spot lie at another point of a field.
DEVICE int64_t place(spot s, box f, int32_t d, int32_t h, int32_t w) {
	int64_t point = (static_cast<int64_t>(d) * f.height + h) * f.row + w, points = static_cast<int64_t>(f.depth) * f.height * f.row;
#ifdef LAST
	return ((s.sample * points + point) * f.channels + s.c) * width;
#else
	return (s.sample * f.channels + s.c) * points + point;
#endif
}

DEVICE int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
DEVICE int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

#define EACH_OF_WINDOW(i, j, k) \
	for (int32_t i = 0; i < size0; i++) \
		for (int32_t j = 0; j < size1; j++) \
			for (int32_t k = 0; k < size2; k++)

KERNEL pool(const T *x, T *y, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y, int32_t height_y, int32_t row_y,
		int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2, int32_t mean) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, to);
		float r[width];
		for (int k = 0; k < width; k++)
			r[k] = mean ? 0 : -INFINITY;
		EACH_OF_WINDOW(a, b, c) {
			float v[width];
			read(x + place(s, from, s.d * step0 + a, s.h * step1 + b, s.w * step2 + c), v);
#pragma unroll
			for (int k = 0; k < width; k++) {
				if (mean)
					r[k] += v[k];
				else if (v[k] > r[k] || v[k] != v[k])
					r[k] = v[k];
			}
		}
		float share = 1.0f / (size0 * size1 * size2);
		for (int k = 0; k < width; k++)
			if (mean)
				r[k] *= share;
		write(y + t * width, r);
	}
}

// Windows that do not overlap: a thread takes one of them, and of what lies behind the
// last whole ones as much as one would have, which is zero.
KERNEL max_pool_grad(const T *x, const T *y, const T *dy, T *dx, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row,
		int32_t depth_y, int32_t height_y, int32_t row_y, int32_t size0, int32_t size1, int32_t size2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	box all = {channels, (depth + size0 - 1) / size0, (height + size1 - 1) / size1, (row + size2 - 1) / size2};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, all);
		bool in = s.d < depth_y && s.h < height_y && s.w < row_y;
		float top[width], d[width];
		bool done[width];
		if (in) {
			int64_t at = place(s, to, s.d, s.h, s.w);
			read(y + at, top);
			read(dy + at, d);
		}
		for (int k = 0; k < width; k++)
			done[k] = !in;
		EACH_OF_WINDOW(a, b, c) {
			int32_t xd = s.d * size0 + a, xh = s.h * size1 + b, xw = s.w * size2 + c;
			if (xd >= depth || xh >= height || xw >= row)
				continue;
			int64_t at = place(s, from, xd, xh, xw);
			float v[width];
			if (in)
				read(x + at, v);
#pragma unroll
			for (int k = 0; k < width; k++) {
				bool here = !done[k] && (v[k] == top[k] || v[k] != v[k]);
				done[k] = done[k] || here;
				v[k] = here ? d[k] : 0;
			}
			write(dx + at, v);
		}
	}
}

// The windows along one axis that hold element i: from lo up to hi.
DEVICE void windows_of(int32_t i, int32_t size, int32_t step, int32_t count, int32_t *lo, int32_t *hi) {
	*lo = i < size ? 0 : (i - size) / step + 1;
	*hi = least(i / step + 1, count);
}

// Windows that may overlap: a thread takes one element, and looks in each window that holds
// it whether it is the first that equals the maximum.
KERNEL max_pool_grad_any(const T *x, const T *y, const T *dy, T *dx, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row,
		int32_t depth_y, int32_t height_y, int32_t row_y, int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, from);
		int32_t lo0, hi0, lo1, hi1, lo2, hi2;
		windows_of(s.d, size0, step0, depth_y, &lo0, &hi0);
		windows_of(s.h, size1, step1, height_y, &lo1, &hi1);
		windows_of(s.w, size2, step2, row_y, &lo2, &hi2);
		float sum[width] = {};
		for (int32_t d = lo0; d < hi0; d++)
			for (int32_t h = lo1; h < hi1; h++)
				for (int32_t w = lo2; w < hi2; w++) {
					int64_t at = place(s, to, d, h, w);
					float top[width], g[width];
					bool done[width] = {};
					read(y + at, top);
					read(dy + at, g);
					EACH_OF_WINDOW(a, b, c) {
						int32_t xd = d * step0 + a, xh = h * step1 + b, xw = w * step2 + c;
						bool me = xd == s.d && xh == s.h && xw == s.w;
						float v[width];
						read(x + place(s, from, xd, xh, xw), v);
#pragma unroll
						for (int k = 0; k < width; k++) {
							bool here = !done[k] && (v[k] == top[k] || v[k] != v[k]);
							if (here && me)
								sum[k] += g[k];
							done[k] = done[k] || here;
						}
					}
				}
		write(dx + t * width, sum);
	}
}

KERNEL avg_pool_grad(const T *dy, T *dx, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y, int32_t height_y,
		int32_t row_y, int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	float share = 1.0f / (size0 * size1 * size2);
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, from);
		int32_t lo0, hi0, lo1, hi1, lo2, hi2;
		windows_of(s.d, size0, step0, depth_y, &lo0, &hi0);
		windows_of(s.h, size1, step1, height_y, &lo1, &hi1);
		windows_of(s.w, size2, step2, row_y, &lo2, &hi2);
		float sum[width] = {};
		for (int32_t d = lo0; d < hi0; d++)
			for (int32_t h = lo1; h < hi1; h++)
				for (int32_t w = lo2; w < hi2; w++) {
					float v[width];
					read(dy + place(s, to, d, h, w), v);
#pragma unroll
					for (int k = 0; k < width; k++)
						sum[k] += v[k] * share;
				}
		write(dx + t * width, sum);
	}
}

// ---- upsampling ----

// The two elements that output o mixes along an axis of n, and the weight of the second. It
// lies at (o + ½)/scale − ½, which is kept as a fraction of 2·scale.
struct taps {
	int32_t lo, hi;
	float share;
};

DEVICE taps taps_of(int32_t o, int32_t scale, int32_t n, bool wrap) {
	int32_t at = 2 * o + 1 - scale, whole = 2 * scale;
	taps t;
	if (at < 0 && !wrap)
		at = 0;
	int32_t j = at >= 0 ? at / whole : -1;
	t.share = static_cast<float>(at - j * whole) / whole;
	t.lo = j < 0 ? n - 1 : j;
	t.hi = j + 1 < n ? j + 1 : wrap ? 0 : n - 1;
	return t;
}

KERNEL upsample(const T *x, T *y, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t scale0, int32_t scale1, int32_t scale2,
		int32_t wrap) {
	box from = {channels, depth, height, row}, to = {channels, depth * scale0, height * scale1, row * scale2};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, to);
		taps d = taps_of(s.d, scale0, depth, false), h = taps_of(s.h, scale1, height, false), w = taps_of(s.w, scale2, row, wrap);
		float sum[width] = {};
#pragma unroll
		for (int i = 0; i < 8; i++) {
			float weight = (i & 4 ? d.share : 1 - d.share) * (i & 2 ? h.share : 1 - h.share) * (i & 1 ? w.share : 1 - w.share);
			if (weight == 0)
				continue;
			float v[width];
			read(x + place(s, from, i & 4 ? d.hi : d.lo, i & 2 ? h.hi : h.lo, i & 1 ? w.hi : w.lo), v);
#pragma unroll
			for (int k = 0; k < width; k++)
				sum[k] += weight * v[k];
		}
		write(y + t * width, sum);
	}
}

// The outputs in which element i of an axis may count: from lo up to hi, which is no more
// than once around a periodic axis; those outside it lie at its other end.
DEVICE void outputs_of(int32_t i, int32_t scale, int32_t n, bool wrap, int32_t *lo, int32_t *hi) {
	*lo = scale * (i - 1) + (scale + 1) / 2;
	*hi = scale * (i + 1) + scale / 2;
	if (!wrap) {
		*lo = most(*lo, 0);
		*hi = least(*hi, n * scale);
	} else if (*hi - *lo > n * scale) {
		*lo = 0;
		*hi = n * scale;
	}
}

DEVICE float weight_of(int32_t i, taps t) { return (t.lo == i ? 1 - t.share : 0) + (t.hi == i ? t.share : 0); }

KERNEL upsample_grad(const T *dy, T *dx, int64_t n, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t scale0, int32_t scale1,
		int32_t scale2, int32_t wrap) {
	box from = {channels, depth, height, row}, to = {channels, depth * scale0, height * scale1, row * scale2};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		spot s = spot_of(t, from);
		int32_t lo0, hi0, lo1, hi1, lo2, hi2;
		outputs_of(s.d, scale0, depth, false, &lo0, &hi0);
		outputs_of(s.h, scale1, height, false, &lo1, &hi1);
		outputs_of(s.w, scale2, row, wrap, &lo2, &hi2);
		float sum[width] = {};
		for (int32_t d = lo0; d < hi0; d++) {
			float in_depth = weight_of(s.d, taps_of(d, scale0, depth, false));
			for (int32_t h = lo1; h < hi1; h++) {
				float in_plane = in_depth * weight_of(s.h, taps_of(h, scale1, height, false));
				if (in_plane == 0)
					continue;
				for (int32_t o = lo2; o < hi2; o++) {
					int32_t w = o < 0 ? o + to.row : o >= to.row ? o - to.row : o;
					float weight = in_plane * weight_of(s.w, taps_of(w, scale2, row, wrap));
					if (weight == 0)
						continue;
					float v[width];
					read(dy + place(s, to, d, h, w), v);
#pragma unroll
					for (int k = 0; k < width; k++)
						sum[k] += weight * v[k];
				}
			}
		}
		write(dx + t * width, sum);
	}
}
