#include "field.cuh"
// Dropout. The random numbers are those of engine/rng: value i of a stream is a pure
// function of its key and i, the place of the element in the plain layout.

constexpr uint64_t golden = 0x9e3779b97f4a7c15u;

// The finaliser of SplitMix64.
DEVICE uint64_t mixed(uint64_t z) {
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

// An element is dropped if the upper 53 bits of its value are below. The key of the stream
// is that of the parts before the step, with the step.
KERNEL dropout(const T *x, T *y, const uint64_t *step, uint64_t key, uint64_t below, float keep, int32_t channels, int32_t lanes, int64_t points, int64_t n) {
	key = mixed(key ^ mixed(*step + golden)) + golden;
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		float v[width];
		read(x + t * width, v);
#ifdef LAST
		int32_t group;
		int64_t all = divided(t, lanes / width, &group), sample = all / points, point = all - sample * points;
		int64_t first = (sample * channels + group * width) * points + point, apart = points;
#else
		int64_t first = t, apart = 0;
#endif
#pragma unroll
		for (int k = 0; k < width; k++) {
			uint64_t i = first + k * apart;
			v[k] = mixed(key + (i + 1) * golden) >> 11 < below ? 0 : v[k] * keep;
		}
		write(y + t * width, v);
	}
}
