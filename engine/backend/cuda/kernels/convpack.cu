#include "common.cuh"
#include "conv.cuh"
#include "mma.cuh"
// A filter [O C taps] in the units that conv.cu reads: [taps][units of source lanes][results],
// each unit 16 bytes of neighbouring source channels, zero where there is no channel. With
// ADJOINT the source channels are those of O, and the results are channels lo to lo +
// results of C. SPARSE, a unit of a result has the two values of each four neighbouring lanes that may differ
// from zero, half as many bytes; their places, two bits each, are in [taps][units][results/16], each unit the bytes of
// results g and g + 8 side by side for g from 0 to 7. Both values of four that have more than two are
// no numbers: results then show that the filter is not 2:4. A block reads eight channels of each side, whose taps lie together in the
// filter for the inner of them, and writes 8 units of each tap.
// Grid: units of lanes, eights of results. Block: 256. Shared: 64·taps floats, of so many
// taps as part says at once.

// lanes0 of the source's lanes are those of its first part, which has channels0 channels.
KERNEL __launch_bounds__(256) pack_filter(const float *w, T *packed, int32_t inner, int32_t taps, int32_t part, int32_t lo,
	int32_t channels0, int32_t lanes0, int32_t sources, int32_t results, int32_t room) {
#if SPARSE
	uint8_t *places = reinterpret_cast<uint8_t *>(packed + static_cast<int64_t>(taps) * gridDim.x * room * (unit_values / 2));
#endif
	DYNAMIC_SHARED(float, tile); // [outer channel][inner channel][tap]
	int first = blockIdx.x * unit_values, r0 = blockIdx.y * 8;
	for (int t0 = 0; t0 < taps; t0 += part) {
		int some = min(part, taps - t0);
		__syncthreads();
		for (int i = threadIdx.x; i < unit_values * 8 * some; i += blockDim.x) {
			int t = i % some, a = i / some;
#if ADJOINT
			int r = r0 + a % 8, lane = first + a / 8;
#else
			int r = r0 + a / unit_values, lane = first + a % unit_values;
#endif
			int c = lane < lanes0 ? (lane < channels0 ? lane : sources) : lane - lanes0 + channels0;
			float v = 0;
			if (c < sources && r < results) {
#if ADJOINT
				v = w[(static_cast<int64_t>(c) * inner + lo + r) * taps + t0 + t];
#else
				v = w[(static_cast<int64_t>(r) * inner + c) * taps + t0 + t];
#endif
			}
			tile[((r - r0) * unit_values + lane - first) * some + t] = v;
		}
		__syncthreads();
#if SPARSE
		for (int i = threadIdx.x; i < 8 * some; i += blockDim.x) {
			int r = i % 8, t = i / 8;
			int64_t at = (static_cast<int64_t>(t0 + t) * gridDim.x + blockIdx.x) * room + r0 + r;
			uint32_t bits = 0;
			for (int quad = 0; quad < unit_values / 4; quad++) {
				float v[4];
				int nonzeros = 0;
				for (int k = 0; k < 4; k++) {
					v[k] = tile[(r * unit_values + quad * 4 + k) * some + t];
					nonzeros += v[k] != 0;
				}
				int lower = v[0] != 0 ? 0 : v[1] != 0 ? 1 : 2, upper = lower < 1 && v[1] != 0 ? 1 : lower < 2 && v[2] != 0 ? 2 : 3;
				bool two = nonzeros <= 2;
				store(packed + at * (unit_values / 2) + quad * 2, two ? v[lower] : __uint_as_float(0x7fffffff));
				store(packed + at * (unit_values / 2) + quad * 2 + 1, two ? v[upper] : __uint_as_float(0x7fffffff));
				bits |= (lower | upper << 2) << 4 * quad;
			}
			places[at / 16 * 16 + at % 8 * 2 + at % 16 / 8] = bits;
		}
#else
		for (int i = threadIdx.x; i < unit_values * 8 * some; i += blockDim.x) {
			int lane = i % unit_values, r = i / unit_values % 8, t = i / unit_values / 8;
			float v = tile[(r * unit_values + lane) * some + t];
#if TF32
			v = __uint_as_float(to_tf32(__float_as_uint(v)));
#endif
			if (r0 + r < room)
				store(packed + ((static_cast<int64_t>(t0 + t) * gridDim.x + blockIdx.x) * room + r0 + r) * unit_values + lane, v);
		}
#endif
	}
}
