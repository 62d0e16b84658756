// What all kernels share. There are no other headers: NVRTC compiles this on machines
// that have no CUDA headers, and emulate/emulate.h stands in for the language on the
// processor.

#ifndef EMULATED
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
// Dynamic shared memory of a block, as an array of T.
#define DYNAMIC_SHARED(T, name) extern __shared__ __align__(16) unsigned char name##_bytes[]; T *name = reinterpret_cast<T *>(name##_bytes)
#endif

#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__

// bf16 is a value stored as bfloat16.
struct bf16 {
	uint16_t bits;
};

// f16 is a value stored as IEEE half.
struct f16 {
	uint16_t bits;
};

// u8 is a quantised value: a whole number from 0 to 255.
struct u8 {
	uint8_t bits;
};

DEVICE float value_of(u8 x) { return x.bits; }
DEVICE float value_of(bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
DEVICE float value_of(f16 x) {
#ifndef EMULATED
	float r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
	return r;
#else
	uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, u = x.bits & 0x7fffu;
	if (u < 0x400u) // in units of the least one
		return __uint_as_float(sign | __float_as_uint(static_cast<float>(u) * 0x1p-24f));
	return __uint_as_float(sign | (u < 0x7c00u ? (u << 13) + 0x38000000u : u << 13 | 0x7f800000u));
#endif
}

DEVICE float load(const float *p) { return *p; }
template <class N> DEVICE float load(const N *p) { return value_of(*p); }

// bf16_of rounds to nearest, ties to even; NaN stays NaN.
DEVICE bf16 bf16_of(float x) {
	uint32_t u = __float_as_uint(x);
	bf16 r;
	if ((u & 0x7fffffffu) > 0x7f800000u)
		r.bits = static_cast<uint16_t>((u >> 16) | 0x40u);
	else
		r.bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
	return r;
}

// f16_of rounds to nearest, ties to even; values out of range become infinite.
DEVICE f16 f16_of(float x) {
	f16 r;
#ifndef EMULATED
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
#else
	uint32_t u = __float_as_uint(x), sign = u >> 16 & 0x8000u;
	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		u = 0x7fffu;
	else if (u >= 0x477ff000u)
		u = 0x7c00u;
	else if (u < 0x38800000u) // the sum is rounded to units of the least value
		u = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u;
	else
		u = (u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13;
	r.bits = static_cast<uint16_t>(sign | u);
#endif
	return r;
}

DEVICE void store(float *p, float x) { *p = x; }
DEVICE void store(bf16 *p, float x) { *p = bf16_of(x); }
DEVICE void store(f16 *p, float x) { *p = f16_of(x); }
// Ties are rounded up, as interpolation wants them; values out of range are clamped.
DEVICE void store(u8 *p, float x) { p->bits = static_cast<uint8_t>(x >= 255 ? 255 : x > 0 ? static_cast<int32_t>(x + 0.5f) : 0); }

// Two neighbours of 16 bits in a word, the first in its lower half.
DEVICE uint16_t low_of(uint32_t w) { return static_cast<uint16_t>(w); }
DEVICE uint16_t high_of(uint32_t w) { return static_cast<uint16_t>(w >> 16); }
template <class N> DEVICE void unpack(const N *, uint32_t w, float *v) {
	v[0] = value_of(N{low_of(w)});
	v[1] = value_of(N{high_of(w)});
}
template <class N> DEVICE uint32_t pack(const N *, const float *v) {
	N low, high;
	store(&low, v[0]);
	store(&high, v[1]);
	return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

// The number of this thread among all of the grid, in one dimension, and of all.
DEVICE int64_t thread_of_grid() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
DEVICE int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// The quotient and the rest, in 32 bits where that is enough.
DEVICE int64_t divided(int64_t i, int32_t by, int32_t *rest) {
	if (static_cast<uint64_t>(i) >> 32 == 0) {
		uint32_t small = static_cast<uint32_t>(i), q = small / static_cast<uint32_t>(by);
		*rest = static_cast<int32_t>(small - q * static_cast<uint32_t>(by));
		return q;
	}
	int64_t q = i / by;
	*rest = static_cast<int32_t>(i - q * by);
	return q;
}
