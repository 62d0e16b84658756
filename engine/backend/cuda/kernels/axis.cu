#include "common.cuh"
// Attention along an axis of plain fields, within windows. A thread takes a query, or for
// gradients a key, of one head, and goes over its window with sums in registers: scores are
// never in memory. Source: Dao et al. 2022, arXiv:2205.14135. PER is what the channels of a
// head are rounded up to.

// Memory layout of the lines along the axis (op.LineStrides). Blocks of `width` adjacent lines begin at
// row k/per_row·row_step and point k%per_row·point_step; lines are `beside` points apart,
// neighbours of a line along_rows rows and along_points points. window has for each element of
// a line the first element of its window and its length.
struct lines {
	int32_t per_row, row_step, point_step, width, beside, along_rows, along_points, length;
	int32_t channels, per, plane, reach;
	const int32_t *window;
};

#define LINES int32_t per_row, int32_t row_step, int32_t point_step, int32_t width, int32_t beside, int32_t along_rows, int32_t along_points, int32_t length, \
	int32_t channels, int32_t per, int32_t plane, int32_t reach, const int32_t *window
#define GIVEN {per_row, row_step, point_step, width, beside, along_rows, along_points, length, channels, per, plane, reach, window}

// An element of a line: its block and line, and its place along the axis.
struct element {
	int64_t block;
	int32_t line, e;
};

// Adjacent threads process elements of adjacent lines.
DEVICE element element_of(int64_t t, const lines &g) {
	element x;
	if (g.beside == 1) {
		t = divided(t, g.width, &x.line);
		x.block = divided(t, g.length, &x.e);
	} else {
		t = divided(t, g.length, &x.e);
		x.block = divided(t, g.width, &x.line);
	}
	return x;
}

// The number of an element, as element_of counts.
DEVICE int64_t number_of(element x, const lines &g) {
	return g.beside == 1 ? (x.block * g.length + x.e) * g.width + x.line : (x.block * g.width + x.line) * g.length + x.e;
}

// The index of channel c of an element in a field of the given number of channels; the
// next channel is g.plane further.
DEVICE int64_t place(element x, int32_t channels, int32_t c, const lines &g) {
	int32_t k;
	int64_t row = divided(x.block, g.per_row, &k) * g.row_step + static_cast<int64_t>(x.e) * g.along_rows;
	int64_t point = static_cast<int64_t>(k) * g.point_step + static_cast<int64_t>(x.line) * g.beside + static_cast<int64_t>(x.e) * g.along_points;
	return (row * channels + c) * g.plane + point;
}

// Element j of the window that begins at lo.
DEVICE element in_window(element x, int32_t lo, int32_t j, const lines &g) {
	x.e = lo + j;
	if (x.e >= g.length)
		x.e -= g.length;
	return x;
}

// The place of an element in its window.
DEVICE int32_t within(element x, int32_t lo, const lines &g) { return x.e >= lo ? x.e - lo : x.e - lo + g.length; }

DEVICE void read(const float *p, const lines &g, float *v) {
#pragma unroll
	for (int c = 0; c < PER; c++)
		v[c] = c < g.per ? p[static_cast<int64_t>(c) * g.plane] : 0;
}

DEVICE void write(float *p, const lines &g, const float *v) {
#pragma unroll
	for (int c = 0; c < PER; c++)
		if (c < g.per)
			p[static_cast<int64_t>(c) * g.plane] = v[c];
}

DEVICE float dot(const float *a, const float *b) {
	float s = 0;
#pragma unroll
	for (int c = 0; c < PER; c++)
		s += a[c] * b[c];
	return s;
}

DEVICE float offset_of(const float *offsets, int32_t i, int32_t j, int32_t reach) {
	int32_t d = j - i;
	return offsets[(d < -reach ? -reach : d > reach ? reach : d) + reach];
}

// The result of a query, and the logarithm of the sum of the exponentials of its scores.
DEVICE float attend(const float *x, const float *offsets, const lines &g, element me, int32_t head, const float *q, float *sum) {
	int32_t lo = g.window[2 * me.e], n = g.window[2 * me.e + 1], i = within(me, lo, g);
	float top = -INFINITY, total = 0, scale = rsqrtf(static_cast<float>(g.per));
#pragma unroll
	for (int c = 0; c < PER; c++)
		sum[c] = 0;
	for (int32_t j = 0; j < n; j++) {
		const float *at = x + place(in_window(me, lo, j, g), 3 * g.channels, g.channels + head * g.per, g);
		float k[PER], v[PER];
		read(at, g, k);
		read(at + static_cast<int64_t>(g.channels) * g.plane, g, v);
		float s = dot(q, k) * scale + offset_of(offsets, i, j, g.reach);
		if (s > top) {
			float less = expf(top - s);
			total *= less;
#pragma unroll
			for (int c = 0; c < PER; c++)
				sum[c] *= less;
			top = s;
		}
		float w = expf(s - top);
		total += w;
#pragma unroll
		for (int c = 0; c < PER; c++)
			sum[c] += w * v[c];
	}
#pragma unroll
	for (int c = 0; c < PER; c++)
		sum[c] /= total;
	return top + logf(total);
}

// n elements of each head; grid: elements, heads.
KERNEL axis_attention(const float *x, const float *offsets, float *y, int64_t n, LINES) {
	lines g = GIVEN;
	int32_t head = blockIdx.y;
	offsets += head * (2 * reach + 1);
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		element me = element_of(t, g);
		float q[PER], sum[PER];
		read(x + place(me, 3 * channels, head * per, g), g, q);
		attend(x, offsets, g, me, head, q, sum);
		write(y + place(me, channels, head * per, g), g, sum);
	}
}

// Of every query the logarithm of the sum of the exponentials and the product of its result
// with dy: stats [2][heads][n]; and if there is a dx, its gradient.
KERNEL axis_queries(const float *x, const float *offsets, const float *dy, float *dx, float *stats, int64_t n, LINES) {
	lines g = GIVEN;
	int32_t head = blockIdx.y;
	offsets += head * (2 * reach + 1);
	float scale = rsqrtf(static_cast<float>(per));
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		element me = element_of(t, g);
		float q[PER], d[PER], sum[PER];
		int64_t at = place(me, 3 * channels, head * per, g);
		read(x + at, g, q);
		read(dy + place(me, channels, head * per, g), g, d);
		float log_sum = attend(x, offsets, g, me, head, q, sum), mean = dot(d, sum);
		stats[head * n + t] = log_sum;
		stats[(gridDim.y + head) * n + t] = mean;
		if (!dx)
			continue;
		int32_t lo = window[2 * me.e], many = window[2 * me.e + 1], i = within(me, lo, g);
#pragma unroll
		for (int c = 0; c < PER; c++)
			sum[c] = 0;
		for (int32_t j = 0; j < many; j++) {
			const float *other = x + place(in_window(me, lo, j, g), 3 * channels, channels + head * per, g);
			float k[PER], v[PER];
			read(other, g, k);
			read(other + static_cast<int64_t>(channels) * plane, g, v);
			float w = expf(dot(q, k) * scale + offset_of(offsets, i, j, reach) - log_sum), slope = scale * w * (dot(d, v) - mean);
#pragma unroll
			for (int c = 0; c < PER; c++)
				sum[c] += slope * k[c];
		}
		write(dx + at, g, sum);
	}
}

// The gradients of keys and values.
KERNEL axis_keys(const float *x, const float *offsets, const float *dy, const float *stats, float *dx, int64_t n, LINES) {
	lines g = GIVEN;
	int32_t head = blockIdx.y;
	offsets += head * (2 * reach + 1);
	float scale = rsqrtf(static_cast<float>(per));
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		element me = element_of(t, g);
		int32_t lo = window[2 * me.e], many = window[2 * me.e + 1], j = within(me, lo, g);
		int64_t at = place(me, 3 * channels, channels + head * per, g), next = static_cast<int64_t>(channels) * plane;
		float k[PER], v[PER], dk[PER] = {}, dv[PER] = {};
		read(x + at, g, k);
		read(x + at + next, g, v);
		for (int32_t i = 0; i < many; i++) {
			element other = in_window(me, lo, i, g);
			int64_t query = number_of(other, g);
			float q[PER], d[PER];
			read(x + place(other, 3 * channels, head * per, g), g, q);
			read(dy + place(other, channels, head * per, g), g, d);
			float w = expf(dot(q, k) * scale + offset_of(offsets, i, j, reach) - stats[head * n + query]);
			float slope = scale * w * (dot(d, v) - stats[(gridDim.y + head) * n + query]);
#pragma unroll
			for (int c = 0; c < PER; c++) {
				dk[c] += slope * q[c];
				dv[c] += w * d[c];
			}
		}
		write(dx + at, g, dk);
		write(dx + at + next, g, dv);
	}
}

// The gradient by the relative position bias, in parts of `each` queries: [parts][heads][2·reach+1].
KERNEL __launch_bounds__(256) axis_offsets(const float *x, const float *offsets, const float *dy, const float *stats, float *parts, int64_t n, int64_t each,
		LINES) {
	__shared__ float all[256];
	lines g = GIVEN;
	int32_t head = blockIdx.y, many = 2 * reach + 1;
	offsets += head * many;
	float scale = rsqrtf(static_cast<float>(per));
	int64_t end = (blockIdx.x + 1) * each;
	if (end > n)
		end = n;
	for (int32_t r = 0; r < many; r++) {
		float sum = 0;
		for (int64_t t = blockIdx.x * each + threadIdx.x; t < end; t += blockDim.x) {
			element me = element_of(t, g);
			int32_t lo = window[2 * me.e], last = window[2 * me.e + 1] - 1, i = within(me, lo, g);
			// Distances beyond reach use the first and the last weight.
			int32_t from = r == 0 ? 0 : i + r - reach, to = r == many - 1 ? last : i + r - reach;
			from = from < 0 && r == many - 1 ? 0 : from;
			to = to > last && r == 0 ? last : to;
			if (from < 0 || to > last)
				continue;
			float q[PER], d[PER];
			read(x + place(me, 3 * channels, head * per, g), g, q);
			read(dy + place(me, channels, head * per, g), g, d);
			for (int32_t j = from; j <= to; j++) {
				const float *other = x + place(in_window(me, lo, j, g), 3 * channels, channels + head * per, g);
				float k[PER], v[PER];
				read(other, g, k);
				read(other + static_cast<int64_t>(channels) * plane, g, v);
				float w = expf(dot(q, k) * scale + offsets[r] - stats[head * n + t]);
				sum += w * (dot(d, v) - stats[(gridDim.y + head) * n + t]);
			}
		}
		all[threadIdx.x] = sum;
		for (int half = blockDim.x / 2; half > 0; half /= 2) {
			__syncthreads();
			if (threadIdx.x < half)
				all[threadIdx.x] += all[threadIdx.x + half];
		}
		if (threadIdx.x == 0)
			parts[(static_cast<int64_t>(blockIdx.x) * gridDim.y + head) * many + r] = all[0];
		__syncthreads();
	}
}
