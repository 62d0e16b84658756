#include "common.cuh"
#include "conv.cuh"
#include "mma.cuh"
// The gradient of a filter, as a product of matrices summed over the points of the result:
// rows are its channels, columns are units of the source's lanes at one tap each. A block
// makes a tile of ROWS×COLUMNS for one tap of the first axis, over a part of the points that
// meet this tap inside of the field, and writes its sums into scratch: [parts][rows][taps of
// the first axis][columns]. filter_sum adds the parts in their order, so that the same
// values give the same bits.
//
// POINTS points a step are copied into one of STAGES buffers as they lie, channels of a point
// together: matrix units read them turned (ldmatrix.trans). Where the points of a step and
// those they read lie is found two steps ahead by a few threads each, which count their
// coordinates on, so that a unit costs three reads and two additions. A row of a buffer is an
// odd number of units, so that eight of them lie in different banks.
//
// A step of bf16 with 32 points and a tile of 128×128 copies 16 KiB, for 2·32·128·128
// operations, 64 for a byte; neighbouring taps and blocks read the same values from caches.
// PRODUCTS as in conv.cu. Grid: tiles of rows, taps of the first axis times tiles of columns,
// parts. Block: THREADS.

constexpr int row_units = ROWS / unit_values, column_units = COLUMNS / unit_values;
#if WGMMA
constexpr int row_pitch = row_units, column_pitch = column_units;
constexpr int ahead = STAGES - 2; // steps that are copied beforehand: the buffer of one is still read
#else
constexpr int more = sizeof(T) == 2 ? 1 : 2; // words of floats are read one by one
constexpr int row_pitch = row_units + more, column_pitch = column_units + more;
constexpr int ahead = STAGES - 1;
#endif
constexpr int stage_units = POINTS * (row_pitch + column_pitch);

// place is where unit u of point p lies in a buffer with rows of so many units.
DEVICE int place(int p, int u, int pitch) {
#if WGMMA // blocks of 64 channels, whose points are 128 bytes each
	return u / 8 * POINTS * 8 + swizzled(p * 8 + u % 8);
#else
	return p * pitch + u;
#endif
}

#if PRODUCTS
constexpr int across = COLUMNS / WARP_COLUMNS;                // warps
constexpr int held = PRODUCTS == 4 ? 8 : 4;                   // of a product by a lane
constexpr int product_rows = 16, product_columns = 2 * held;
constexpr int tall = WARP_ROWS / product_rows, wide = WARP_COLUMNS / product_columns; // products of a warp
#else
constexpr int tall = WARP_ROWS, wide = WARP_COLUMNS;          // here of a thread, in fours
constexpr int across = COLUMNS / wide, down = ROWS / tall;    // threads
#endif

KERNEL __launch_bounds__(THREADS, BLOCKS) filter_grad(const T *x0, const T *x1, const T *dy, float *sums_of_parts,
	int32_t units0, int32_t units1, int32_t units_dy, int32_t samples, int32_t column_tiles,
	int32_t rows_d, int32_t rows_h, int32_t rows_w, int32_t taps_h, int32_t taps_w, AXIS(d), AXIS(h), AXIS(w)) {
	DYNAMIC_SHARED(unit, shared);
#if WGMMA
	unit *const stages = aligned_units(shared);
#else
	unit *const stages = shared;
#endif
	// Two tables after the buffers: for POINTS points the place in dy, in x along the
	// first axis, and along the others for each tap.
	int32_t *tables = reinterpret_cast<int32_t *>(stages + STAGES * stage_units);
	const int entries = 2 + taps_h + taps_w;

	const axis d = AXIS_OF(d), h = AXIS_OF(h), w = AXIS_OF(w);
	const int tid = threadIdx.x;
	const int tap_d = blockIdx.y / column_tiles, column0 = blockIdx.y % column_tiles * COLUMNS;

	// The rows of the first axis that this tap meets are neighbours.
	int low = 0, high = rows_d;
	while (low < high && source(d, low, tap_d) < 0)
		low++;
	while (high > low && source(d, high - 1, tap_d) < 0)
		high--;
	const int levels = high - low;
	const int64_t all = static_cast<int64_t>(samples) * levels * rows_h * rows_w;
	const int64_t part = ((all + POINTS - 1) / POINTS + gridDim.z - 1) / gridDim.z * POINTS;
	const int64_t begin = min(part * blockIdx.z, all), end = min(begin + part, all);
	const int steps = static_cast<int>((end - begin + POINTS - 1) / POINTS);

	// Coordinates of the point that this thread looks up for the next table.
	const int looked = tid % POINTS;
	int64_t rest = begin + looked;
	int left = static_cast<int>(end - begin) - looked; // points from this one on
	int iw = static_cast<int>(rest % rows_w);
	rest /= rows_w;
	int ih = static_cast<int>(rest % rows_h);
	rest /= rows_h;
	int id = levels > 0 ? static_cast<int>(rest % levels) : 0, n = levels > 0 ? static_cast<int>(rest / levels) : 0;
	auto look_up = [&](int table) {
		int32_t *to = tables + table * entries * POINTS + looked;
		for (int k = tid / POINTS; k < entries; k += THREADS / POINTS) {
			int32_t at = -1;
			if (left > 0) {
				if (k == 0)
					at = ((n * rows_d + low + id) * rows_h + ih) * rows_w + iw;
				else if (k == 1)
					at = (n * d.size + source(d, low + id, tap_d)) * h.size * w.size;
				else if (k < 2 + taps_h)
					at = source(h, ih, k - 2);
				else
					at = source(w, iw, k - 2 - taps_h);
				if (k >= 2 && k < 2 + taps_h && at >= 0)
					at *= w.size;
			}
			to[k * POINTS] = at;
		}
		left -= POINTS;
		iw += POINTS;
		while (iw >= rows_w) {
			iw -= rows_w;
			if (++ih == rows_h) {
				ih = 0;
				if (++id == levels) {
					id = 0;
					n++;
				}
			}
		}
	};

	// What this thread copies: of the rows one unit of every so-manieth point, and of the
	// columns one, which has one tap.
	constexpr int copied_rows = POINTS * row_units / THREADS, copied_columns = POINTS * column_units / THREADS;
	static_assert(THREADS % row_units == 0 && THREADS % column_units == 0, "a thread copies one column");
	static_assert(POINTS * row_units % THREADS == 0 && POINTS * column_units % THREADS == 0, "all threads copy as much");
	const int units = units0 + units1;
	const int row_unit = blockIdx.x * row_units + tid % row_units, column_unit = column0 / unit_values + tid % column_units;
	const int tap = column_unit / units, e = column_unit % units;
	const bool row_there = row_unit < units_dy, column_there = tap < taps_h * taps_w;
	const unit *rows_from = reinterpret_cast<const unit *>(dy) + row_unit;
	const unit *columns_from = reinterpret_cast<const unit *>(e < units0 ? x0 : x1) + (e < units0 ? e : e - units0);
	const int pitch = e < units0 ? units0 : units1;
	const int at_h = (2 + (column_there ? tap / taps_w : 0)) * POINTS, at_w = (2 + taps_h + (column_there ? tap % taps_w : 0)) * POINTS;
	auto copy = [&](int stage, int table) {
		const int32_t *from = tables + table * entries * POINTS;
		unit *to = stages + stage * stage_units;
#pragma unroll
		for (int i = 0; i < copied_rows; i++) {
			int p = tid / row_units + i * (THREADS / row_units);
			int32_t at = from[p];
			bool there = row_there && at >= 0;
			copy_unit(to + place(p, tid % row_units, row_pitch), there ? rows_from + static_cast<int64_t>(at) * units_dy : reinterpret_cast<const unit *>(dy), there);
		}
		to += POINTS * row_pitch;
#pragma unroll
		for (int i = 0; i < copied_columns; i++) {
			int p = tid / column_units + i * (THREADS / column_units);
			int32_t a = from[POINTS + p], b = from[at_h + p], c = from[at_w + p];
			bool there = column_there && (a | b | c) >= 0;
			copy_unit(to + place(p, tid % column_units, column_pitch), there ? columns_from + static_cast<int64_t>(a + b + c) * pitch : reinterpret_cast<const unit *>(dy), there);
		}
	};

#if PRODUCTS
	float sums[tall][wide][held] = {};
	const int lane = tid % 32, warp_row = tid / 32 / across * WARP_ROWS, warp_column = tid / 32 % across * WARP_COLUMNS;
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units, *b = a + POINTS * row_pitch;
#if WGMMA
		a += tid / 128 * POINTS * 8;
		groups_begin();
#pragma unroll
		for (int p = 0; p < POINTS; p += 16)
			group_products<true>(x0, sums[0], a + p * 8, b + p * 8, POINTS * 8);
		groups_end();
#elif PRODUCTS == 4
		const char *wa = reinterpret_cast<const char *>(a + lane % 4 * row_pitch) + (warp_row + quad_row(lane, true)) * 2;
		const char *wb = reinterpret_cast<const char *>(b + lane % 4 * column_pitch) + (warp_column + quad_column(lane, true)) * 2;
#pragma unroll
		for (int p = 0; p < POINTS; p += 4) {
			uint2 fa[tall], fb[wide];
#pragma unroll
			for (int i = 0; i < tall; i++)
				fa[i] = *reinterpret_cast<const uint2 *>(wa + p * row_pitch * 16 + i * product_rows * 2);
#pragma unroll
			for (int j = 0; j < wide; j++)
				fb[j] = *reinterpret_cast<const uint2 *>(wb + p * column_pitch * 16 + j * product_columns * 2);
			quads<true>(sums, fa, fb);
		}
#elif PRODUCTS != 2
		a += (lane / 16 * 8 + lane % 8) * row_pitch + warp_row / 8 + lane / 8 % 2;
		b += (lane / 8 % 2 * 8 + lane % 8) * column_pitch + warp_column / 8;
#pragma unroll
		for (int p = 0; p < POINTS; p += 16) {
			uint32_t fa[tall][4], fb[wide][2];
#pragma unroll
			for (int i = 0; i < tall; i++)
				load_turned(fa[i], a + p * row_pitch + i * 2);
#pragma unroll
			for (int j = 0; j < wide; j += 2) {
				uint32_t four[4]; // an odd last one is read twice
				load_turned(four, b + p * column_pitch + j + (j + 1 < wide ? lane / 16 : 0));
				fb[j][0] = four[0], fb[j][1] = four[1];
				if (j + 1 < wide)
					fb[j + 1][0] = four[2], fb[j + 1][1] = four[3];
			}
			products(kind_of(x0), sums, fa, fb);
		}
#else
		const uint32_t *wa = reinterpret_cast<const uint32_t *>(a) + lane % 4 * row_pitch * 4 + warp_row + lane / 4;
		const uint32_t *wb = reinterpret_cast<const uint32_t *>(b) + lane % 4 * column_pitch * 4 + warp_column + lane / 4;
#pragma unroll
		for (int p = 0; p < POINTS; p += 8) {
			uint32_t fa[tall][4], fb[wide][2];
#pragma unroll
			for (int i = 0; i < tall; i++)
#pragma unroll
				for (int k = 0; k < 4; k++)
					fa[i][k] = to_tf32(wa[(p + k / 2 * 4) * row_pitch * 4 + i * 16 + k % 2 * 8]);
#pragma unroll
			for (int j = 0; j < wide; j++)
#pragma unroll
				for (int k = 0; k < 2; k++)
					fb[j][k] = to_tf32(wb[(p + k * 4) * column_pitch * 4 + j * 8]);
			products(kind_of(x0), sums, fa, fb);
		}
#endif
	};
#else
	float sums[tall][wide] = {};
	const int thread_row = tid / across, thread_column = tid % across;
	auto multiply = [&](int stage) {
		const T *a = reinterpret_cast<const T *>(stages + stage * stage_units), *b = reinterpret_cast<const T *>(stages + stage * stage_units + POINTS * row_pitch);
#pragma unroll 4
		for (int p = 0; p < POINTS; p++) {
			float fa[tall], fb[wide];
#pragma unroll
			for (int i = 0; i < tall; i += 4)
				load4(fa + i, a + p * row_pitch * unit_values + (i * down + thread_row * 4));
#pragma unroll
			for (int j = 0; j < wide; j += 4)
				load4(fb + j, b + p * column_pitch * unit_values + (j * across + thread_column * 4));
#pragma unroll
			for (int i = 0; i < tall; i++)
#pragma unroll
				for (int j = 0; j < wide; j++)
					sums[i][j] += fa[i] * fb[j];
		}
	};
#endif

	look_up(0);
	for (int s = 0; s < ahead; s++) {
		__syncthreads();
		copy(s, s % 2);
		copies_end();
		look_up((s + 1) % 2);
	}
	for (int s = 0; s < steps; s++) {
		copies_left<ahead - 1>();
#if WGMMA
		copies_shown();
		__syncthreads();
		multiply(s % STAGES);
#else
		__syncthreads();
#endif
		copy((s + ahead) % STAGES, (s + ahead) % 2);
		copies_end();
		look_up((s + ahead + 1) % 2);
#if WGMMA
		groups_left<1>();
#else
		multiply(s % STAGES);
#endif
	}
#if WGMMA
	groups_left<0>();
	keep_sums(sums[0]);
#endif
	copies_left<0>();

	const int64_t columns = static_cast<int64_t>(gridDim.y) * COLUMNS;
	float *to = sums_of_parts + (static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x) * ROWS * columns + static_cast<int64_t>(blockIdx.y) * COLUMNS;
#if PRODUCTS
	to += warp_row * columns + warp_column;
#pragma unroll
	for (int i = 0; i < tall; i++)
#pragma unroll
		for (int j = 0; j < wide; j++)
#pragma unroll
			for (int v = 0; v < held; v += 2)
				*reinterpret_cast<float2 *>(to + (i * product_rows + held_row<held>(lane, v)) * columns + j * product_columns + held_column<held>(lane, v)) =
					make_float2(sums[i][j][v], sums[i][j][v + 1]);
#else
#pragma unroll
	for (int i = 0; i < tall; i++)
#pragma unroll
		for (int j = 0; j < wide; j += 4)
			store4(to + (i / 4 * 4 * down + thread_row * 4 + i % 4) * columns + j * across + thread_column * 4, sums[i] + j);
#endif
}

// filter_sum adds the parts and writes [O C taps], zero where the mask kept is 0, a byte for every
// pair of 16 channels. A block takes one channel of the result and LANES of the source.
// Grid: groups of source channels, channels of the result. Block: 256. Shared: LANES + 1
// floats for each tap.
KERNEL __launch_bounds__(256) filter_sum(const float *sums_of_parts, float *dw, const uint32_t *kept, int32_t parts, int32_t rows, int64_t columns, int64_t columns_d,
	int32_t channels, int32_t channels0, int32_t lanes0, int32_t lanes, int32_t taps_d, int32_t taps_hw) {
	DYNAMIC_SHARED(float, tile);
	int o = blockIdx.y, c0 = blockIdx.x * LANES, taps = taps_d * taps_hw;
	for (int i = threadIdx.x; i < taps * LANES; i += blockDim.x) {
		int c = c0 + i % LANES, t = i / LANES;
		float sum = 0;
		if (c < channels && (!kept || kept[(o / 16) * ((channels + 15) / 16) + c / 16])) {
			int lane = c < channels0 ? c : c - channels0 + lanes0;
			const float *from = sums_of_parts + o * columns + t / taps_hw * columns_d + static_cast<int64_t>(t % taps_hw) * lanes + lane;
			for (int p = 0; p < parts; p++)
				sum += from[p * rows * columns];
		}
		tile[t * (LANES + 1) + i % LANES] = sum;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < taps * LANES; i += blockDim.x) {
		int t = i % taps, c = i / taps;
		if (c0 + c < channels)
			dw[(static_cast<int64_t>(o) * channels + c0 + c) * taps + t] = tile[t * (LANES + 1) + c];
	}
}
