// Neighbours that are loaded and stored 16 bytes at a time. Addresses are multiples of that.
#pragma once
#include "common.cuh"

struct __align__(16) four_words {
	uint32_t a, b, c, d;
};

// Eight of float32, of values of 16 bits, or of 8 bits, whose addresses are multiples of 8 bytes.
DEVICE void load8(const float *p, float *v) {
	const four_words x = reinterpret_cast<const four_words *>(p)[0], y = reinterpret_cast<const four_words *>(p)[1];
	v[0] = __uint_as_float(x.a), v[1] = __uint_as_float(x.b), v[2] = __uint_as_float(x.c), v[3] = __uint_as_float(x.d);
	v[4] = __uint_as_float(y.a), v[5] = __uint_as_float(y.b), v[6] = __uint_as_float(y.c), v[7] = __uint_as_float(y.d);
}
template <class N> DEVICE void load8(const N *p, float *v) {
	const four_words x = *reinterpret_cast<const four_words *>(p);
	const uint32_t w[4] = {x.a, x.b, x.c, x.d};
#pragma unroll
	for (int k = 0; k < 4; k++)
		unpack(p, w[k], v + 2 * k);
}
DEVICE void store8(float *p, const float *v) {
	four_words x = {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])};
	four_words y = {__float_as_uint(v[4]), __float_as_uint(v[5]), __float_as_uint(v[6]), __float_as_uint(v[7])};
	reinterpret_cast<four_words *>(p)[0] = x;
	reinterpret_cast<four_words *>(p)[1] = y;
}
template <class N> DEVICE void store8(N *p, const float *v) {
	uint32_t w[4];
#pragma unroll
	for (int k = 0; k < 4; k++)
		w[k] = pack(p, v + 2 * k);
	*reinterpret_cast<four_words *>(p) = {w[0], w[1], w[2], w[3]};
}
DEVICE void load8(const u8 *p, float *v) {
	const uint2 x = *reinterpret_cast<const uint2 *>(p);
#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = (k < 4 ? x.x >> 8 * k : x.y >> 8 * (k - 4)) & 0xff;
}
DEVICE void store8(u8 *p, const float *v) {
	uint2 x = {0, 0};
#pragma unroll
	for (int k = 0; k < 8; k++) {
		u8 one;
		store(&one, v[k]);
		(k < 4 ? x.x : x.y) |= static_cast<uint32_t>(one.bits) << 8 * (k % 4);
	}
	*reinterpret_cast<uint2 *>(p) = x;
}

// Four of float32, which are all that plain values are.
DEVICE void load4(const float *p, float *v) {
	const four_words x = *reinterpret_cast<const four_words *>(p);
	v[0] = __uint_as_float(x.a), v[1] = __uint_as_float(x.b), v[2] = __uint_as_float(x.c), v[3] = __uint_as_float(x.d);
}
DEVICE void store4(float *p, const float *v) {
	*reinterpret_cast<four_words *>(p) = {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])};
}
