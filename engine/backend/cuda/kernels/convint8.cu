#include "wide.cuh"
#include "mma.cuh"
// Convolutions of codes, uint8 with the channels last, with filters of which blocks of 16×16 channels are
// zero and left out (SpMM of Magicube, arXiv:2209.06979, with the gathered field as the dense operand).
// The filter is packed beforehand (convint8pack.cu): panels of VECTOR result channels have slots, each a
// column of the filter matrix, in runs of RUN = 16 source channels of one tap, which are a unit. A block
// makes the results of one panel at POINTS grid points: for each STRIDE slots, which are the depth of a
// product, it copies the filter's tile and the two units of each point, neighbours in memory, into one of
// STAGES buffers while older ones are multiplied. There is no transposition: codes of a point lie side by side
// along the summed index. Runs of a block of channels follow each other over its taps, so that taps meet in
// the first cache what others have read.
//
// Points beyond the field have the zero point of their part as code; what it contributes to a sum is in
// minus (pack_filter). A point has `lanes` codes, a multiple of 8.
// Results: scale·(sum − minus) + bias, with ReLU, as values, or as codes by the scales of the results.
// Grid: tiles of points, the panels of one tile adjacent. Block: THREADS.

#define THREADS 128
constexpr int unit_slots = 16, units = STRIDE / unit_slots, ahead = STAGES - 1;
constexpr int stage_units = units * (VECTOR + POINTS); // the filter's tile first
constexpr int each = POINTS / THREADS;                 // points that a thread copies
constexpr int warp_points = POINTS / (THREADS / 32), wide = warp_points / 8;
constexpr int pitch = VECTOR + 4; // of the results of a point in shared memory
static_assert(VECTOR == 16 && STRIDE == 32 && RUN == unit_slots, "a tile is the left operand of one instruction, a run one unit");
static_assert(POINTS % THREADS == 0 && wide % 2 == 0, "matrices are loaded in pairs");
static_assert(POINTS * pitch * 4 <= STAGES * stage_units * 16, "results take the place of the buffers");

KERNEL __launch_bounds__(THREADS) conv_int8(const uint8_t *x0, const uint8_t *x1, const int32_t *ptr, const int32_t *col, const unit *values,
	const float *scale, const int32_t *minus, const float *bias, const float *out_scales, T *y,
	int32_t blocks0, int32_t lanes0, int32_t lanes1, int32_t zero0, int32_t zero1, int32_t panels, int32_t samples,
	int32_t depth, int32_t height, int32_t row, int32_t taps_d, int32_t wrap, int32_t channels, int32_t lanes, int32_t relu) {
	DYNAMIC_SHARED(unit, stages);
	const int tid = threadIdx.x, lane = tid % 32, warp_point = tid / 32 * warp_points;
	const int32_t panel = blockIdx.x % panels, tile = blockIdx.x / panels, taps = taps_d * 9;

	int32_t n[each], d[each], h[each], w[each];
#pragma unroll
	for (int i = 0; i < each; i++) {
		uint32_t m = static_cast<uint32_t>(tile) * POINTS + i * THREADS + tid, next = m / row; // points are fewer than 2³¹
		w[i] = m - next * row;
		m = next, next = m / height;
		h[i] = m - next * height;
		n[i] = next / depth;
		d[i] = next - n[i] * depth;
	}

	const int32_t first = ptr[2 * panel], batches = (ptr[2 * panel + 1] - first + STRIDE - 1) / STRIDE;
	auto copy = [&](int stage, int32_t batch) {
		unit *to = stages + stage * stage_units;
		const int32_t at = first / STRIDE + batch;
		if (tid < VECTOR * units) // rows of the tile are units side by side
			copy_unit_once(to + tid % units * VECTOR + tid / units, values + static_cast<int64_t>(at) * (VECTOR * units) + tid, true);
		to += units * VECTOR;
#pragma unroll
		for (int u = 0; u < units; u++, to += POINTS) {
			int32_t column = col[at * units + u];
			if (column < 0)
				continue; // the filter's values are 0, codes may be any
			int32_t run = column / RUN, block = run / taps, tap = run - block * taps;
			int32_t td = tap / 9 - taps_d / 2, th = tap / 3 % 3 - 1, tw = tap % 3 - 1;
			const bool second = block >= blocks0;
			const uint8_t *x = second ? x1 : x0;
			const int32_t lanes_x = second ? lanes1 : lanes0, c = (second ? block - blocks0 : block) * RUN;
			const uint32_t none = (second ? zero1 : zero0) * 0x01010101u;
#pragma unroll
			for (int i = 0; i < each; i++) {
				int32_t ad = d[i] + td, ah = h[i] + th, aw = w[i] + tw;
				if (wrap)
					aw = aw < 0 ? aw + row : aw >= row ? aw - row : aw;
				unit *place = to + i * THREADS + tid;
				if (n[i] >= samples || ad < 0 || ad >= depth || ah < 0 || ah >= height || aw < 0 || aw >= row) {
					*place = {none, none, none, none};
					continue;
				}
				const uint8_t *from = x + ((static_cast<int64_t>(n[i]) * depth + ad) * height + ah) * row * lanes_x + static_cast<int64_t>(aw) * lanes_x + c;
				if (lanes_x % RUN == 0) {
					copy_unit(place, from, true);
				} else { // units begin at multiples of 8 bytes, and the last one of a point may be half
					uint2 *halves = reinterpret_cast<uint2 *>(place);
					copy_half(halves, reinterpret_cast<const uint2 *>(from), true);
					copy_half(halves + 1, reinterpret_cast<const uint2 *>(c + 8 < lanes_x ? from + 8 : from), c + 8 < lanes_x);
				}
			}
		}
	};

	int32_t sums[wide][4] = {};
	auto multiply = [&](int stage) {
		const unit *a = stages + stage * stage_units, *b = a + units * VECTOR + warp_point;
		uint32_t fa[4], fb[wide][2];
		load_matrices(fa, a + lane % 16 + lane / 16 * VECTOR);
#pragma unroll
		for (int j = 0; j < wide; j += 2) {
			uint32_t four[4];
			load_matrices(four, b + j * 8 + lane % 8 + lane / 8 % 2 * POINTS + lane / 16 * 8);
			fb[j][0] = four[0], fb[j][1] = four[1], fb[j + 1][0] = four[2], fb[j + 1][1] = four[3];
		}
		integer_products(sums, fa, fb);
	};

#pragma unroll
	for (int s = 0; s < ahead; s++) {
		if (s < batches)
			copy(s, s);
		copies_end();
	}
	for (int32_t batch = 0; batch < batches; batch++) {
		copies_left<ahead - 1>();
		__syncthreads(); // the copies of all threads are there, and the buffer before is read
		if (batch + ahead < batches)
			copy((batch + ahead) % STAGES, batch + ahead);
		copies_end();
		multiply(batch % STAGES);
	}
	copies_left<0>();
	__syncthreads();

	float *results = reinterpret_cast<float *>(stages);
#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int r = lane / 4 + 8 * half, o = panel * VECTOR + r;
		const float s = scale[o], b = o < channels ? bias[o] : 0;
		const int32_t less = minus[o];
#pragma unroll
		for (int j = 0; j < wide; j++)
#pragma unroll
			for (int i = 0; i < 2; i++) {
				float v = static_cast<float>(sums[j][2 * half + i] - less) * s + b;
				results[(warp_point + j * 8 + lane % 4 * 2 + i) * pitch + r] = relu && v < 0 ? 0 : v;
			}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < each; i++) {
		if (n[i] >= samples)
			continue;
		const int p = i * THREADS + tid;
		T *to = y + (static_cast<int64_t>(tile) * POINTS + p) * lanes;
		for (int o = panel * VECTOR; o < (panel + 1) * VECTOR && o < lanes; o += 8) {
			float v[8];
#pragma unroll
			for (int k = 0; k < 8; k++) {
				v[k] = results[p * pitch + o % VECTOR + k];
				if (out_scales)
					v[k] = o + k < channels ? rintf(v[k] / out_scales[o + k]) : 0;
			}
			store8(to + o, v);
		}
	}
}
