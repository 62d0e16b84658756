#include "field.cuh"
// Pooling and upsampling, with their gradients, which gather: every thread makes values of
// one point of the result, of one channel or eight lanes, so that no two threads write to
// one place. A block takes a row of the result, so that all but the last coordinate are the
// same for its threads.

// A field: channels, counted by width, and its last three axes.
struct box {
	int32_t channels, depth, height, row;
};

// A row of a field: its sample, channel (0 with the channels last) and first two coordinates.
struct line {
	int64_t sample;
	int32_t c, d, h;
};

// The row of a block, and how many values its threads take in turns.
DEVICE line line_of_block(box f) {
	line s;
	int64_t i = divided(blockIdx.x, f.height, &s.h);
	i = divided(i, f.depth, &s.d);
	s.c = 0;
#ifndef LAST
	i = divided(i, f.channels, &s.c);
#endif
	s.sample = i;
	return s;
}

DEVICE int32_t values_of_row(box f) {
#ifdef LAST
	return f.row * f.channels;
#else
	return f.row;
#endif
}

// The last coordinate of value i of a row, and its channel.
DEVICE int32_t along_row(int32_t i, box f, line *s) {
#ifdef LAST
	int32_t w = static_cast<uint32_t>(i) / static_cast<uint32_t>(f.channels);
	s->c = i - w * f.channels;
	return w;
#else
	return i;
#endif
}

// The address of the sample and channels of a row at another point of a field.
DEVICE int64_t place(line s, box f, int32_t d, int32_t h, int32_t w) {
#ifdef LAST
	return ((((s.sample * f.depth + d) * f.height + h) * f.row + w) * f.channels + s.c) * width;
#else
	return (((s.sample * f.channels + s.c) * f.depth + d) * f.height + h) * f.row + w;
#endif
}

DEVICE int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
DEVICE int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

#define EACH_OF_WINDOW(i, j, k) \
	for (int32_t i = 0; i < size0; i++) \
		for (int32_t j = 0; j < size1; j++) \
			for (int32_t k = 0; k < size2; k++)

#define EACH_OF_ROW(i, field) for (int32_t i = threadIdx.x, row_end = values_of_row(field); i < row_end; i += blockDim.x)

KERNEL pool(const T *x, T *y, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y, int32_t height_y, int32_t row_y,
		int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2, int32_t mean) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	line s = line_of_block(to);
	float share = 1.0f / (size0 * size1 * size2);
	EACH_OF_ROW(t, to) {
		int32_t w = along_row(t, to, &s);
		float r[width];
#pragma unroll
		for (int k = 0; k < width; k++)
			r[k] = mean ? 0 : -INFINITY;
		EACH_OF_WINDOW(a, b, c) {
			float v[width];
			read(x + place(s, from, s.d * step0 + a, s.h * step1 + b, w * step2 + c), v);
#pragma unroll
			for (int k = 0; k < width; k++) {
				if (mean)
					r[k] += v[k] * share;
				else if (v[k] > r[k] || v[k] != v[k])
					r[k] = v[k];
			}
		}
		write(y + place(s, to, s.d, s.h, w), r);
	}
}

// Windows that do not overlap: a thread takes one of them, and of what lies behind the
// last whole ones as much as one would have, which is zero.
KERNEL max_pool_grad(const T *x, const T *y, const T *dy, T *dx, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y,
		int32_t height_y, int32_t row_y, int32_t size0, int32_t size1, int32_t size2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	box all = {channels, (depth + size0 - 1) / size0, (height + size1 - 1) / size1, (row + size2 - 1) / size2};
	line s = line_of_block(all);
	EACH_OF_ROW(t, all) {
		int32_t w = along_row(t, all, &s);
		bool in = s.d < depth_y && s.h < height_y && w < row_y;
		float top[width], d[width];
		bool done[width];
		if (in) {
			int64_t at = place(s, to, s.d, s.h, w);
			read(y + at, top);
			read(dy + at, d);
		}
#pragma unroll
		for (int k = 0; k < width; k++)
			done[k] = !in;
		EACH_OF_WINDOW(a, b, c) {
			int32_t xd = s.d * size0 + a, xh = s.h * size1 + b, xw = w * size2 + c;
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
KERNEL max_pool_grad_any(const T *x, const T *y, const T *dy, T *dx, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y,
		int32_t height_y, int32_t row_y, int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	line s = line_of_block(from);
	int32_t lo0, hi0, lo1, hi1, lo2, hi2;
	windows_of(s.d, size0, step0, depth_y, &lo0, &hi0);
	windows_of(s.h, size1, step1, height_y, &lo1, &hi1);
	EACH_OF_ROW(t, from) {
		int32_t me = along_row(t, from, &s);
		windows_of(me, size2, step2, row_y, &lo2, &hi2);
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
						bool mine = xd == s.d && xh == s.h && xw == me;
						float v[width];
						read(x + place(s, from, xd, xh, xw), v);
#pragma unroll
						for (int k = 0; k < width; k++) {
							bool here = !done[k] && (v[k] == top[k] || v[k] != v[k]);
							if (here && mine)
								sum[k] += g[k];
							done[k] = done[k] || here;
						}
					}
				}
		write(dx + place(s, from, s.d, s.h, me), sum);
	}
}

KERNEL avg_pool_grad(const T *dy, T *dx, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t depth_y, int32_t height_y, int32_t row_y,
		int32_t size0, int32_t size1, int32_t size2, int32_t step0, int32_t step1, int32_t step2) {
	box from = {channels, depth, height, row}, to = {channels, depth_y, height_y, row_y};
	line s = line_of_block(from);
	float share = 1.0f / (size0 * size1 * size2);
	int32_t lo0, hi0, lo1, hi1, lo2, hi2;
	windows_of(s.d, size0, step0, depth_y, &lo0, &hi0);
	windows_of(s.h, size1, step1, height_y, &lo1, &hi1);
	EACH_OF_ROW(t, from) {
		int32_t me = along_row(t, from, &s);
		windows_of(me, size2, step2, row_y, &lo2, &hi2);
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
		write(dx + place(s, from, s.d, s.h, me), sum);
	}
}

// ---- upsampling ----

// Output o lies at (o + ½)/scale − ½ of the axis, which is at/(2·scale) with a whole number:
// beyond the ends of the axis it is that of the end, but of a periodic one.
DEVICE int32_t position(int32_t o, int32_t scale, int32_t n, bool wrap) {
	int32_t at = 2 * o + 1 - scale;
	return wrap ? at : most(0, least(at, 2 * scale * (n - 1)));
}

// The two elements that an output mixes, and the weight of the second.
struct taps {
	int32_t lo, hi;
	float share;
};

DEVICE taps taps_of(int32_t o, int32_t scale, int32_t n, bool wrap) {
	int32_t at = position(o, scale, n, wrap);
	float one = 1.0f / (2 * scale);
	int32_t j = static_cast<int32_t>(floorf((at + 0.5f) * one)); // half a step from all whole numbers
	taps t;
	t.share = (at - j * 2 * scale) * one;
	t.lo = j < 0 ? n - 1 : j;
	t.hi = j + 1 < n ? j + 1 : wrap ? 0 : n - 1;
	return t;
}

KERNEL upsample(const T *x, T *y, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t scale0, int32_t scale1, int32_t scale2, int32_t wrap) {
	box from = {channels, depth, height, row}, to = {channels, depth * scale0, height * scale1, row * scale2};
	line s = line_of_block(to);
	taps d = taps_of(s.d, scale0, depth, false), h = taps_of(s.h, scale1, height, false);
	EACH_OF_ROW(t, to) {
		int32_t me = along_row(t, to, &s);
		taps w = taps_of(me, scale2, row, wrap);
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
		write(y + place(s, to, s.d, s.h, me), sum);
	}
}

// The outputs in which element i of an axis may count: from lo up to hi; of a periodic axis
// those outside it lie at its other end.
DEVICE void outputs_of(int32_t i, int32_t scale, int32_t n, bool wrap, int32_t *lo, int32_t *hi) {
	*lo = scale * (i - 1) + (scale + 1) / 2;
	*hi = scale * (i + 1) + scale / 2;
	if (!wrap) {
		*lo = most(*lo, 0);
		*hi = least(*hi, n * scale);
	}
}

// The weight of element i in output o, which may be beyond the ends of a periodic axis.
DEVICE float weight_of(int32_t i, int32_t o, int32_t scale, int32_t n, bool wrap) {
	int32_t apart = position(o, scale, n, wrap) - 2 * scale * i;
	return fmaxf(0, 1 - fabsf(apart * (1.0f / (2 * scale))));
}

KERNEL upsample_grad(const T *dy, T *dx, int32_t channels, int32_t depth, int32_t height, int32_t row, int32_t scale0, int32_t scale1, int32_t scale2,
		int32_t wrap) {
	box from = {channels, depth, height, row}, to = {channels, depth * scale0, height * scale1, row * scale2};
	line s = line_of_block(from);
	int32_t lo0, hi0, lo1, hi1, lo2, hi2;
	outputs_of(s.d, scale0, depth, false, &lo0, &hi0);
	outputs_of(s.h, scale1, height, false, &lo1, &hi1);
	EACH_OF_ROW(t, from) {
		int32_t me = along_row(t, from, &s);
		outputs_of(me, scale2, row, wrap, &lo2, &hi2);
		float sum[width] = {};
		for (int32_t d = lo0; d < hi0; d++) {
			float in_depth = weight_of(s.d, d, scale0, depth, false);
			for (int32_t h = lo1; h < hi1; h++) {
				float in_plane = in_depth * weight_of(s.h, h, scale1, height, false);
				for (int32_t o = lo2; o < hi2; o++) {
					int32_t w = o < 0 ? o + to.row : o >= to.row ? o - to.row : o;
					float weight = in_plane * weight_of(me, o, scale2, row, wrap), v[width];
					if (weight == 0)
						continue;
					read(dy + place(s, to, d, h, w), v);
#pragma unroll
					for (int k = 0; k < width; k++)
						sum[k] += weight * v[k];
				}
			}
		}
		write(dx + place(s, from, s.d, s.h, me), sum);
	}
}
