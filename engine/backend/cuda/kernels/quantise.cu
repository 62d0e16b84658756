#include "wide.cuh"
// Quantisation of a field [N C P], or with LAST [N P L], to uint8 with the channels last: each value
// divided by the scale of its channel, rounded, ties to even, plus the zero point, which is even. A
// thread makes eight neighbouring lanes of a point; those beyond the last channel are 0.

KERNEL quantise(const T *x, u8 *y, const float *scales, int32_t channels, int32_t lanes, int64_t points, int32_t samples, int32_t zero) {
	const int32_t eights = lanes / 8;
	for (int64_t i = thread_of_grid(); i < points * samples * eights; i += threads_of_grid()) {
		float v[8];
#ifdef LAST
		int32_t eight;
		int64_t at = divided(i, eights, &eight) * lanes + eight * 8;
		load8(x + at, v);
#else
		int64_t plane = i / points, point = i - plane * points; // threads side by side read points side by side
		int32_t eight;
		int64_t sample = divided(plane, eights, &eight), at = (sample * points + point) * lanes + eight * 8;
#endif
#pragma unroll
		for (int k = 0; k < 8; k++) {
			int32_t c = eight * 8 + k;
#ifndef LAST
			if (c < channels)
				v[k] = load(x + (sample * channels + c) * points + point);
#endif
			v[k] = c < channels ? rintf(v[k] / scales[c]) + zero : 0;
		}
		store8(y + at, v);
	}
}
