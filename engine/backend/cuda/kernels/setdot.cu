#include "common.cuh"
// Attention within sets: products of queries and keys, and sums with weights. Fields are
// plain, [N·Q C D H W] and [N·K C D H W], the channels divided among heads; weights [N·Q
// heads·K D' H' W'] have one cell for some points: point p of n is in cell ⌊p·n'/n⌋ of n'.

constexpr int tile = 8; // keys of a block, for which a query is read once

// Sizes of attention.
struct sizes {
	int32_t queries, keys, heads, per; // rows of a sample, heads and channels of each
	int32_t depth, height, row;        // points
	int32_t cells0, cells1, cells2;
};

#define SIZES int32_t queries, int32_t keys, int32_t heads, int32_t per, int32_t depth, int32_t height, int32_t row, int32_t cells0, int32_t cells1, int32_t cells2
#define GIVEN {queries, keys, heads, per, depth, height, row, cells0, cells1, cells2}

// The first of n points that is in cell e of cells or later.
DEVICE int32_t first_of(int32_t e, int32_t n, int32_t cells) { return static_cast<int32_t>((static_cast<int64_t>(e) * n + cells - 1) / cells); }

DEVICE int32_t cell_of(int32_t p, int32_t n, int32_t cells) { return static_cast<int32_t>(static_cast<int64_t>(p) * cells / n); }

// The points of a cell: the first one, and the number along each axis.
struct part {
	int32_t d, h, w, nd, nh, nw;
};

DEVICE part part_of(int64_t cell, sizes s) {
	int32_t e0, e1, e2;
	cell = divided(cell, s.cells2, &e2);
	cell = divided(cell, s.cells1, &e1);
	e0 = static_cast<int32_t>(cell);
	part p;
	p.d = first_of(e0, s.depth, s.cells0);
	p.h = first_of(e1, s.height, s.cells1);
	p.w = first_of(e2, s.row, s.cells2);
	p.nd = first_of(e0 + 1, s.depth, s.cells0) - p.d;
	p.nh = first_of(e1 + 1, s.height, s.cells1) - p.h;
	p.nw = first_of(e2 + 1, s.row, s.cells2) - p.w;
	return p;
}

// Where element i of the channels of a head and the points of a cell lies, of a field's row
// from the head's first channel on.
DEVICE int64_t place(int64_t i, part p, sizes s) {
	int32_t d, h, w;
	i = divided(i, p.nw, &w);
	i = divided(i, p.nh, &h);
	i = divided(i, p.nd, &d);
	return ((i * s.depth + p.d + d) * s.height + p.h + h) * s.row + p.w + w;
}

// A thread takes a product: for small heads and cells.
KERNEL dot_threads(const float *q, const float *k, float *y, int64_t n, SIZES) {
	sizes s = GIVEN;
	int64_t cells = static_cast<int64_t>(cells0) * cells1 * cells2, points = static_cast<int64_t>(depth) * height * row, run = heads * per * points;
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t r = t / cells, cell = t - r * cells;
		int32_t key, head;
		r = divided(r, keys, &key);
		r = divided(r, heads, &head); // the row of the query
		const float *a = q + r * run + head * per * points, *b = k + (r / queries * keys + key) * run + head * per * points;
		part p = part_of(cell, s);
		int64_t count = static_cast<int64_t>(per) * p.nd * p.nh * p.nw;
		float sum = 0;
		for (int64_t i = 0; i < count; i++) {
			int64_t at = place(i, p, s);
			sum += a[at] * b[at];
		}
		y[t] = sum;
	}
}

// A block takes a part of the products of a query with some keys: for large ones. Grid: (rows of
// queries)·heads·(tiles of keys)·cells, parts. It leaves [parts][results].
KERNEL __launch_bounds__(256) dot_blocks(const float *q, const float *k, float *parts, int64_t results, int64_t each, SIZES) {
	__shared__ float all[tile][256];
	sizes s = GIVEN;
	int64_t cells = static_cast<int64_t>(cells0) * cells1 * cells2, points = static_cast<int64_t>(depth) * height * row, run = heads * per * points;
	int64_t r = blockIdx.x / cells, cell = blockIdx.x - r * cells;
	int32_t group, head;
	r = divided(r, (keys + tile - 1) / tile, &group);
	r = divided(r, heads, &head);
	const float *a = q + r * run + head * per * points, *b = k + (r / queries * keys + group * tile) * run + head * per * points;
	part p = part_of(cell, s);
	int64_t count = static_cast<int64_t>(per) * p.nd * p.nh * p.nw, end = (blockIdx.y + 1) * each;
	if (end > count)
		end = count;
	int mine = keys - group * tile;
	float sum[tile] = {};
	for (int64_t i = blockIdx.y * each + threadIdx.x; i < end; i += blockDim.x) {
		int64_t at = place(i, p, s);
		float v = a[at];
#pragma unroll
		for (int j = 0; j < tile; j++)
			if (j < mine)
				sum[j] += v * b[j * run + at];
	}
#pragma unroll
	for (int j = 0; j < tile; j++)
		all[j][threadIdx.x] = sum[j];
	for (int half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
#pragma unroll
			for (int j = 0; j < tile; j++)
				all[j][threadIdx.x] += all[j][threadIdx.x + half];
	}
	__syncthreads();
	int j = threadIdx.x;
	if (j < tile && j < mine)
		parts[blockIdx.y * results + ((r * heads + head) * keys + group * tile + j) * cells + cell] = all[j][0];
}

// Sums of rows with weights: of those of keys for each query, or transposed of those of queries
// for each key.
KERNEL set_mix(const float *w, const float *x, float *y, int64_t n, int32_t transposed, SIZES) {
	int64_t cells = static_cast<int64_t>(cells0) * cells1 * cells2, points = static_cast<int64_t>(depth) * height * row, run = heads * per * points;
	int32_t to = transposed ? keys : queries, from = transposed ? queries : keys;
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t sample = t / run, inside = t - sample * run;
		int32_t d, h, l, c, me;
		sample = divided(sample, to, &me);
		int64_t i = divided(inside, row, &l);
		i = divided(i, height, &h);
		c = static_cast<int32_t>(divided(i, depth, &d));
		int64_t cell = (static_cast<int64_t>(cell_of(d, depth, cells0)) * cells1 + cell_of(h, height, cells1)) * cells2 + cell_of(l, row, cells2);
		int32_t head = c / per;
		float sum = 0;
		for (int32_t other = 0; other < from; other++) {
			int32_t query = transposed ? other : me, key = transposed ? me : other;
			sum += w[(((sample * queries + query) * heads + head) * keys + key) * cells + cell] * x[(sample * from + other) * run + inside];
		}
		y[t] = sum;
	}
}
