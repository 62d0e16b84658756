#include "common.cuh"
#include "conv.cuh"
#include "mma.cuh"
// A filter [O C taps] in the units that conv.cu reads: [taps][units of source lanes][results],
// each unit 16 bytes of neighbouring source channels, zero where there is no channel. With
// ADJOINT the source channels are those of O, and the results are channels lo to lo +
// results of C. A block reads eight channels of each side, whose taps lie together in the
// filter for the inner of them, and writes 8 units of each tap.
// Grid: units of lanes, eights of results. Block: 256. Shared: 64·taps floats, of so many
// taps as part says at once.

// lanes0 of the source's lanes are those of its first part, which has channels0 channels.
KERNEL __launch_bounds__(256) pack_filter(const float *w, T *packed, int32_t inner, int32_t taps, int32_t part, int32_t lo,
	int32_t channels0, int32_t lanes0, int32_t sources, int32_t results, int32_t room) {
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
		for (int i = threadIdx.x; i < unit_values * 8 * some; i += blockDim.x) {
			int lane = i % unit_values, r = i / unit_values % 8, t = i / unit_values / 8;
			float v = tile[(r * unit_values + lane) * some + t];
#if TF32
			v = __uint_as_float(to_tf32(__float_as_uint(v)));
#endif
			if (r0 + r < room)
				store(packed + ((static_cast<int64_t>(t0 + t) * gridDim.x + blockIdx.x) * room + r0 + r) * unit_values + lane, v);
		}
	}
}
