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

DEVICE float load(const float *p) { return *p; }
DEVICE float load(const bf16 *p) { return __uint_as_float(static_cast<uint32_t>(p->bits) << 16); }

// bf16_of rounds to nearest, ties to even; what is no number stays none.
DEVICE bf16 bf16_of(float x) {
	uint32_t u = __float_as_uint(x);
	bf16 r;
	if ((u & 0x7fffffffu) > 0x7f800000u)
		r.bits = static_cast<uint16_t>((u >> 16) | 0x40u);
	else
		r.bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
	return r;
}

DEVICE void store(float *p, float x) { *p = x; }
DEVICE void store(bf16 *p, float x) { *p = bf16_of(x); }

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
