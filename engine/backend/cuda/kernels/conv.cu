#include "common.cuh"
#include "conv.cuh"
#include "mma.cuh"
// Convolutions and their adjoints over fields with channels last, as a product of matrices
// that is never written: rows are points of the result, columns its channels, and the sum
// runs over taps and channels of the source, unit by unit of 16 bytes (eight bf16 or f16,
// four floats), which belong to one tap each. A block makes a tile of ROWS×COLUMNS; four units of
// it a step are copied into one of STAGES buffers while older ones are multiplied.
//
// The address of a row is a sum of three numbers, one for each axis and its tap: tables of those
// in shared memory, made once for the tile, leave three reads and two additions for a unit.
// Taps of the first axis that no row of the tile has (depth 2 lacks a third of them) are
// left out of the sum. The filter is packed beforehand (convpack.cu).
//
// A step of bf16 with tiles of 256×128 copies 24 KiB for 2·256·128·32 operations: 85 for a byte.
// Of the 16 KiB of the field, though, 3×3 taps repeat all but a seventh from the first cache
// where tiles are boxes, and two thirds otherwise: 200 and 155 for a byte from the second
// cache, where 120 keep matrix units of 600 Tflop/s busy at 5 TB/s. In shared
// memory a warp reads 64 rows and 64 columns, 8 KiB a step, for 64 products of 16×8×16.
// Rows of a buffer are 16 bytes longer than a multiple of 128 so that eight of them, or four
// units of two, lie in different banks. An accumulator is 128 registers, which leaves one
// block of 256 threads to a processor; smaller tiles let two or three share one.
//
// PRODUCTS is 0 for products of floats on the plain units (every device, and float32 to the
// last bit), 1 for bf16, 2 for tf32 and 3 for f16 on matrix units, 4 for f16 on
// those of compute capability 7.0, 5 for bf16 or f16 with 2:4 filters: of four neighbouring source
// channels of a filter value's tap at least two have zeros. The filter is the sparse
// operand, which is the left one of an instruction, so products have result channels as rows and points as columns.
// A unit of the filter has eight bytes of values then and one of metadata for a result channel (convpack.cu).
// The rows of a tile are consecutive points, or a box of the last two axes, where
// few points are left over: then taps of both axes meet what others of the tile have read, a
// quarter more points than the tile has instead of three times as many.
// Grid: tiles, those of the same rows adjacent. Block: THREADS.

#if WGMMA
#define UNITS 8
constexpr int row_units = ROWS, column_units = COLUMNS; // of a buffer, per unit of the sum
constexpr int ahead = STAGES - 2; // steps that are copied beforehand: the buffer of one is still read
#else
#define UNITS 4
constexpr int row_units = ROWS + 2, column_units = COLUMNS + 2;
constexpr int ahead = STAGES - 1;
#endif
#define SPARSE (PRODUCTS == 5)
#if SPARSE
constexpr int places_units = COLUMNS / 16; // of metadata, per unit of the sum, behind values of two units side by side
constexpr int stage_units = UNITS * row_units + UNITS / 2 * column_units + UNITS * places_units;
#define METADATA const unit *metadata,
#else
constexpr int stage_units = UNITS * (row_units + column_units);
#define METADATA
#endif

// place is where unit u of row or column r lies in a buffer with so many.
DEVICE int place(int u, int r, int rows) {
#if WGMMA
	return swizzled(r * 8 + u);
#else
	return u * rows + r;
#endif
}

#if PRODUCTS
constexpr int across = COLUMNS / WARP_COLUMNS;                   // warps
constexpr int held = PRODUCTS == 4 ? 8 : 4;                      // of a product by a lane
constexpr int product_rows = 16, product_columns = 2 * held;
#if SPARSE
constexpr int tall = WARP_ROWS / 16, wide = WARP_COLUMNS / 16;   // pairs of products of 16 channels and 8 points, of a warp
#else
constexpr int tall = WARP_ROWS / product_rows, wide = WARP_COLUMNS / product_columns; // products of a warp
#endif
constexpr int passes = tall, pass_rows = ROWS / WARP_ROWS * 16;  // in which results are written
#else
constexpr int tall = WARP_ROWS, wide = WARP_COLUMNS;             // here of a thread
constexpr int across = COLUMNS / wide, down = ROWS / tall;       // threads
constexpr int passes = tall, pass_rows = down;
#endif
constexpr int pass_floats = COLUMNS + 4; // a row of results in shared memory

// met is the place in the source that tap v meets for row i.
DEVICE int32_t met(const axis &a, int32_t i, const int32_t *tap, int32_t v) {
#if ADJOINT
	return reader(a, i, tap[v], v % a.turns);
#else
	return source(a, i, tap[v]);
#endif
}

// result_row is the row of the tile that row r of a pass is.
DEVICE int result_row(int r, int pass) {
#if PRODUCTS
	return r / 16 * WARP_ROWS + pass * 16 + r % 16;
#else
	return pass * down + r;
#endif
}

KERNEL __launch_bounds__(THREADS, BLOCKS) conv(const T *x0, const T *x1, const unit *filter, METADATA const float *bias, const T *plus, const T *gate, T *y,
	int32_t units0, int32_t units1, int32_t samples, int32_t room, int32_t channels, int32_t lanes, int32_t relu, int32_t box,
	int32_t rows_d, int32_t rows_h, int32_t rows_w, int32_t taps_d, int32_t taps_h, int32_t taps_w,
	int32_t out_d, int32_t out_h, int32_t out_w, int32_t filter_h, int32_t filter_w, AXIS(d), AXIS(h), AXIS(w)) {
	DYNAMIC_SHARED(unit, shared);
#if WGMMA
	unit *const stages = aligned_units(shared);
#else
	unit *const stages = shared;
#endif
	// Tables after the buffers: for every row of the tile the points of each tap of each
	// axis, and its point of the result; the filter's tap of each; those of the first axis
	// that some row has.
	int32_t *at_d = reinterpret_cast<int32_t *>(stages + STAGES * stage_units);
	int32_t *at_h = at_d + taps_d * ROWS, *at_w = at_h + taps_h * ROWS, *point = at_w + taps_w * ROWS;
	int32_t *tap_d = point + ROWS, *tap_h = tap_d + taps_d, *tap_w = tap_h + taps_h, *some = tap_w + taps_w, *used = some + taps_d;

	const axis d = AXIS_OF(d), h = AXIS_OF(h), w = AXIS_OF(w);
	int tid = threadIdx.x;
	const int column_tiles = (lanes + COLUMNS - 1) / COLUMNS;
	const int column0 = blockIdx.x % column_tiles * COLUMNS;
	const uint32_t tile = blockIdx.x / column_tiles;

	for (int v = tid; v < taps_d; v += THREADS) {
		tap_d[v] = d.first + v / d.turns * d.each;
		some[v] = 0;
	}
	for (int v = tid; v < taps_h; v += THREADS)
		tap_h[v] = h.first + v / h.turns * h.each;
	for (int v = tid; v < taps_w; v += THREADS)
		tap_w[v] = w.first + v / w.turns * w.each;
	__syncthreads();
	for (int r = tid; r < ROWS; r += THREADS) {
		uint32_t at, iw, ih; // points are fewer than 2³¹
		bool there = true;
		if (box > 0) {
			uint32_t boxes_w = (rows_w + box - 1) / box, side = ROWS / box, boxes_h = (rows_h + side - 1) / side, next = tile / boxes_w;
			iw = (tile - next * boxes_w) * box + r % box;
			at = next / boxes_h;
			ih = (next - at * boxes_h) * side + r / box;
			there = iw < rows_w && ih < rows_h;
		} else {
			uint32_t m = tile * ROWS + r, next = m / rows_w;
			iw = m - next * rows_w;
			at = next / rows_h;
			ih = next - at * rows_h;
		}
		int n = at / rows_d, id = at - n * rows_d;
		there = there && n < samples;
		for (int v = 0; v < taps_d; v++) {
			int32_t at = there ? met(d, id, tap_d, v) : -1;
			at_d[v * ROWS + r] = at < 0 ? -1 : (n * d.size + at) * h.size * w.size;
			if (at >= 0)
				some[v] = 1; // all write the same
		}
		for (int v = 0; v < taps_h; v++) {
			int32_t at = met(h, ih, tap_h, v);
			at_h[v * ROWS + r] = at < 0 ? -1 : at * w.size;
		}
		for (int v = 0; v < taps_w; v++)
			at_w[v * ROWS + r] = met(w, iw, tap_w, v);
		point[r] = there ? ((n * out_d + d.from + id * d.step) * out_h + h.from + ih * h.step) * out_w + w.from + iw * w.step : -1;
	}
	__syncthreads();
	int count = 0;
	for (int v = 0; v < taps_d; v++)
		if (some[v]) {
			if (tid == 0)
				used[count] = v;
			count++;
		}
	__syncthreads();
	if (taps_h == 0 || taps_w == 0)
		count = 0; // rows that an adjoint with strides does not reach

	// What this thread copies: unit tid%4 of a step, of every THREADS/4-th row and column.
	// The sum runs over taps of the first axis, groups of units, taps of the others and units
	// of a group: a group of four, where the lanes are so many, is read by all taps of the
	// last two axes in consecutive steps, from the first cache.
	constexpr int copied_rows = (ROWS * UNITS + THREADS - 1) / THREADS, copied_columns = (COLUMNS * UNITS + THREADS - 1) / THREADS;
	const int u = tid % UNITS, first = tid / UNITS;
	const int units = units0 + units1, group = units % UNITS == 0 ? UNITS : units;
	int in_group = u, begin = 0, vw = 0, vh = 0, vd = 0;
	int32_t base[copied_rows], from[copied_rows]; // points, of the first two axes and of all
	int64_t base_tap = 0, tap = 0;
	bool row_moved = true, moved = true;
	auto carry = [&] {
		while (in_group >= group && vd < count) {
			in_group -= group;
			moved = true;
			if (++vw < taps_w)
				continue;
			vw = 0;
			row_moved = true;
			if (++vh < taps_h)
				continue;
			vh = 0;
			if ((begin += group) < units)
				continue;
			begin = 0;
			vd++;
		}
	};
	carry();
	int steps = (count * taps_h * taps_w * units + UNITS - 1) / UNITS;
	auto copy = [&](int stage) {
		unit *to = stages + stage * stage_units;
		bool there = vd < count;
		if (row_moved && there) {
			row_moved = false;
			int v = used[vd];
			base_tap = (tap_d[v] * filter_h + tap_h[vh]) * filter_w;
#pragma unroll
			for (int i = 0; i < copied_rows; i++) {
				int r = first + i * (THREADS / UNITS);
				if (ROWS * UNITS % THREADS == 0 || r < ROWS) {
					int32_t a = at_d[v * ROWS + r], b = at_h[vh * ROWS + r];
					base[i] = (a | b) < 0 ? -1 : a + b;
				}
			}
		}
		if (moved && there) {
			moved = false;
			tap = (base_tap + tap_w[vw]) * units;
#pragma unroll
			for (int i = 0; i < copied_rows; i++) {
				int r = first + i * (THREADS / UNITS);
				if (ROWS * UNITS % THREADS == 0 || r < ROWS) {
					int32_t c = at_w[vw * ROWS + r];
					from[i] = (base[i] | c) < 0 ? -1 : base[i] + c;
				}
			}
		}
		const int e = begin + in_group;
		const unit *x = reinterpret_cast<const unit *>(e < units0 ? x0 : x1);
		int pitch = e < units0 ? units0 : units1, lane = e < units0 ? e : e - units0;
#pragma unroll
		for (int i = 0; i < copied_rows; i++) {
			int r = first + i * (THREADS / UNITS);
			if (ROWS * UNITS % THREADS == 0 || r < ROWS) {
				bool valid = there && from[i] >= 0;
				copy_unit(to + place(u, r, row_units), valid ? x + static_cast<int64_t>(from[i]) * pitch + lane : x, valid);
			}
		}
		to += UNITS * row_units;
#if SPARSE
		const uint2 *values = reinterpret_cast<const uint2 *>(filter), *f = values + (tap + e) * room + column0;
#pragma unroll
		for (int i = 0; i < copied_columns; i++) {
			int c = first + i * (THREADS / UNITS);
			if (COLUMNS * UNITS % THREADS == 0 || c < COLUMNS)
				copy_half(reinterpret_cast<uint2 *>(to + place(u / 2, c, column_units)) + u % 2, there ? f + c : values, there);
		}
		to += UNITS / 2 * column_units + u * places_units;
		const unit *p = metadata + ((tap + e) * room + column0) / 16;
		for (int c = first; c < places_units; c += THREADS / UNITS)
			copy_unit_once(to + c, there ? p + c : metadata, true); // missing values are 0, their places any
#else
		const unit *f = filter + (tap + e) * room + column0;
#pragma unroll
		for (int i = 0; i < copied_columns; i++) {
			int c = first + i * (THREADS / UNITS);
			if (COLUMNS * UNITS % THREADS == 0 || c < COLUMNS)
				copy_unit_once(to + place(u, c, column_units), there ? f + c : filter, there);
		}
#endif
		in_group += UNITS;
		carry();
	};

#if PRODUCTS
#if SPARSE
	float sums[2 * tall][wide][held] = {};
#else
	float sums[tall][wide][held] = {};
#endif
	const int lane = tid % 32, warp_row = tid / 32 / across * WARP_ROWS, warp_column = tid / 32 % across * WARP_COLUMNS;
#endif
#if WGMMA
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units + tid / 128 * 64 * UNITS, *b = stages + stage * stage_units + UNITS * row_units;
		groups_begin();
#pragma unroll
		for (int k = 0; k < UNITS; k += 2)
			group_products<false>(x0, sums[0], a + k, b + k, 1);
		groups_end();
	};
#elif PRODUCTS == 4
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units + warp_row + quad_row(lane, false);
		const unit *b = stages + stage * stage_units + UNITS * row_units + warp_column + quad_column(lane, false);
#pragma unroll
		for (int k = 0; k < UNITS; k++) {
			unit wa[tall], wb[wide];
#pragma unroll
			for (int i = 0; i < tall; i++)
				wa[i] = a[k * row_units + i * product_rows];
#pragma unroll
			for (int j = 0; j < wide; j++)
				wb[j] = b[k * column_units + j * product_columns];
#pragma unroll
			for (int half = 0; half < 2; half++) {
				uint2 fa[tall], fb[wide];
#pragma unroll
				for (int i = 0; i < tall; i++)
					fa[i].x = half ? wa[i].z : wa[i].x, fa[i].y = half ? wa[i].w : wa[i].y;
#pragma unroll
				for (int j = 0; j < wide; j++)
					fb[j].x = half ? wb[j].z : wb[j].x, fb[j].y = half ? wb[j].w : wb[j].y;
				quads<false>(sums, fa, fb);
			}
		}
	};
#elif SPARSE
	auto multiply = [&](int stage) {
		const unit *points = stages + stage * stage_units, *values = points + UNITS * row_units;
		// The metadata of 16 channels is a unit, with those of channels g and g + 8 side by side: a
		// lane has that of the two units of its half of the sum, of one of two products.
		const uint16_t *places = reinterpret_cast<const uint16_t *>(values + UNITS / 2 * column_units + lane % 2 * 2 * places_units) + lane / 4;
		uint32_t fa[wide][4], metadata[(wide + 1) / 2];
#pragma unroll
		for (int i = 0; i < wide; i++)
			load_matrices(fa[i], values + warp_column + i * 16 + lane % 16 + lane / 16 * column_units);
#pragma unroll
		for (int i = 0; i < wide; i += 2) {
			const uint16_t *p = places + (warp_column / 16 + (i + 1 < wide ? i + lane % 4 / 2 : i)) * 8;
			uint32_t lower = p[0], upper = p[places_units * 8];
			metadata[i / 2] = lower & 0xff | (upper & 0xff) << 8 | (lower & 0xff00) << 8 | (upper & 0xff00) << 16;
		}
#pragma unroll
		for (int j = 0; j < 2 * tall; j++) {
			uint32_t fb[4];
			load_matrices(fb, points + warp_row + j * 8 + lane % 8 + lane / 8 * row_units);
			sparse_products(kind_of(x0), sums[j], fa, fb, metadata);
		}
	};
#elif PRODUCTS
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units + warp_row + lane % 16 + lane / 16 * row_units;
		const unit *b = stages + stage * stage_units + UNITS * row_units + warp_column + lane % 8 + lane / 8 % 2 * column_units;
#pragma unroll
		for (int half = 0; half < UNITS; half += 2) {
			uint32_t fa[tall][4], fb[wide][2];
#pragma unroll
			for (int i = 0; i < tall; i++)
				load_matrices(fa[i], a + half * row_units + i * 16);
#pragma unroll
			for (int j = 0; j < wide; j += 2) {
				uint32_t four[4]; // an odd last one is read twice
				load_matrices(four, b + half * column_units + j * 8 + (j + 1 < wide ? lane / 16 * 8 : 0));
				fb[j][0] = four[0], fb[j][1] = four[1];
				if (j + 1 < wide)
					fb[j + 1][0] = four[2], fb[j + 1][1] = four[3];
			}
#if PRODUCTS == 2
#pragma unroll
			for (int i = 0; i < tall; i++)
#pragma unroll
				for (int k = 0; k < 4; k++)
					fa[i][k] = to_tf32(fa[i][k]);
#endif
			products(kind_of(x0), sums, fa, fb);
		}
	};
#else
	float sums[tall][wide] = {};
	const int thread_row = tid / across, thread_column = tid % across;
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units + thread_row;
		const unit *b = stages + stage * stage_units + UNITS * row_units + thread_column;
#pragma unroll 1
		for (int k = 0; k < UNITS; k++)
#pragma unroll 1
			for (int part = 0; part < unit_values; part += 4) { // not unrolled: registers are few
				float fa[tall][4];
#pragma unroll
				for (int i = 0; i < tall; i++)
					load4(fa[i], reinterpret_cast<const T *>(a + k * row_units + i * down) + part);
#pragma unroll
				for (int j = 0; j < wide; j++) {
					float fb[4];
					load4(fb, reinterpret_cast<const T *>(b + k * column_units + j * across) + part);
#pragma unroll
					for (int i = 0; i < tall; i++)
#pragma unroll
						for (int q = 0; q < 4; q++)
							sums[i][j] += fa[i][q] * fb[q];
				}
			}
	};
#endif

	for (int s = 0; s < ahead; s++) {
		copy(s);
		copies_end();
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
		copy((s + ahead) % STAGES);
		copies_end();
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
	__syncthreads();

	// Results go through shared memory, a part of the tile in each pass, so that they are
	// written in whole lines, eight lanes by a thread.
	float *staged = reinterpret_cast<float *>(stages);
#pragma unroll
	for (int pass = 0; pass < passes; pass++) {
		if (pass > 0)
			__syncthreads();
#if PRODUCTS
		float *s = staged + warp_row / WARP_ROWS * product_rows * pass_floats + warp_column;
#if SPARSE
#pragma unroll
		for (int i = 0; i < wide; i++)
#pragma unroll
			for (int half = 0; half < 2; half++)
#pragma unroll
				for (int v = 0; v < held; v++)
					s[(half * 8 + held_column<held>(lane, v)) * pass_floats + i * 16 + held_row<held>(lane, v)] = sums[2 * pass + half][i][v];
#else
#pragma unroll
		for (int j = 0; j < wide; j++)
#pragma unroll
			for (int v = 0; v < held; v++)
				s[held_row<held>(lane, v) * pass_floats + j * product_columns + held_column<held>(lane, v)] = sums[pass][j][v];
#endif
#else
#pragma unroll
		for (int j = 0; j < wide; j++)
			staged[thread_row * pass_floats + thread_column + j * across] = sums[pass][j];
#endif
		__syncthreads();
		for (int i = tid; i < pass_rows * (COLUMNS / 8); i += THREADS) {
			int r = i / (COLUMNS / 8), c = column0 + i % (COLUMNS / 8) * 8;
			int32_t p = point[result_row(r, pass)];
			if (p < 0 || c >= lanes)
				continue;
			int64_t to = static_cast<int64_t>(p) * lanes + c;
			const float *s = staged + r * pass_floats + c - column0;
#pragma unroll
			for (int half = 0; half < 8; half += 4) {
				float v[4], other[4];
				load4(v, s + half);
				if (bias)
					for (int k = 0; k < 4; k++)
						if (c + half + k < channels)
							v[k] += bias[c + half + k];
				if (plus) {
					load4(other, plus + to + half);
					for (int k = 0; k < 4; k++)
						v[k] += other[k];
				}
				if (gate) {
					load4(other, gate + to + half);
					for (int k = 0; k < 4; k++)
						v[k] = other[k] > 0 ? v[k] : 0;
				}
				for (int k = 0; k < 4; k++) {
					if (relu)
						v[k] = v[k] > 0 || v[k] != v[k] ? v[k] : 0;
					if (c + half + k >= channels)
						v[k] = 0;
				}
				store4(y + to + half, v);
			}
		}
	}
}
