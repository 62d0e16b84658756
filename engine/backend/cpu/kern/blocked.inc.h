// Kernels on the blocked layout: a value [N C D H W] stored as
// [N][ceil(C/16)][D][H][W][16], where the lanes beyond channel C are zero. A
// cell is the 16 channels of one place; in registers it is CV vectors.
//
// Big tensors are float32 or bfloat16 (the upper half of a float32); arithmetic
// is in float32. A body takes b16 as its last argument, a constant after
// inlining, and STORED compiles it once for each storage.

enum { CELL = 16, CV = CELL / VL };

typedef unsigned uvec __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef uint16_t hvec __attribute__((vector_size(VL * 2), aligned(2), may_alias));

typedef struct { vec v[CV]; } cell;

// Comparisons: with AVX-512 in mask registers, which the compiler uses well for
// one comparison but not for two joined.
#if VL == 16 && defined(__AVX512F__)
typedef __mmask16 vmask;
INLINE vmask above(vec a, vec b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ); }
INLINE vmask not_number(vec a) { return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q); }
INLINE vmask equal(vec a, vec b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
INLINE vec pick(vmask m, vec a, vec b) { return (vec)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a); }
#else
typedef ivec vmask;
INLINE vmask above(vec a, vec b) { return a > b; }
INLINE vmask not_number(vec a) { return a != a; }
INLINE vmask equal(vec a, vec b) { return a == b; }
INLINE vec pick(vmask m, vec a, vec b) { return (vec)((m & (ivec)a) | (~m & (ivec)b)); }
#endif

#define EACH_VEC(q) UNROLL for (int q = 0; q < CV; q++)

// STORED(body) defines the items body_f32 and body_b16 of a body, PICK chooses.
#define STORED(body)                                                 \
	static void body##_f32(void *v, long item) { body(v, item, 0); } \
	static void body##_b16(void *v, long item) { body(v, item, 1); }
#define PICK(body, b16) ((b16) ? body##_b16 : body##_f32)

// at is the address of element i.
INLINE void *at(const void *p, long i, int b16) { return (char *)p + i * (b16 ? 2 : 4); }

// bf16 rounds to nearest, ties to even; what is not a number stays so.
INLINE uint16_t bf16(float x) {
	uint32_t u;
	memcpy(&u, &x, 4);
	uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
	return x != x ? nan : r;
}

INLINE float from_bf16(uint16_t h) {
	uint32_t u = (uint32_t)h << 16;
	float x;
	memcpy(&x, &u, 4);
	return x;
}

INLINE float get(const void *p, long i, int b16) {
	return b16 ? from_bf16(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

INLINE void put(void *p, long i, float x, int b16) {
	if (b16)
		((uint16_t *)p)[i] = bf16(x);
	else
		((float *)p)[i] = x;
}

// The compilers' own conversions between vectors of different size take halves apart.
#if VL == 16 && defined(__AVX512BW__)
INLINE uvec to_upper(hvec h) { return (uvec)_mm512_cvtepu16_epi32((__m256i)h) << 16; }
INLINE hvec from_upper(uvec u) {
	static const uint16_t odd[32] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
	return (hvec)_mm512_castsi512_si256(_mm512_permutexvar_epi16(_mm512_loadu_si512(odd), (__m512i)u));
}
#elif VL == 8 && defined(__AVX2__)
INLINE uvec to_upper(hvec h) { return (uvec)_mm256_cvtepu16_epi32((__m128i)h) << 16; }
INLINE hvec from_upper(uvec u) { return __builtin_convertvector(u >> 16, hvec); }
#else
INLINE uvec to_upper(hvec h) { return __builtin_convertvector(h, uvec) << 16; }
INLINE hvec from_upper(uvec u) { return __builtin_convertvector(u >> 16, hvec); }
#endif

// round_upper is bf16 in the upper halves.
INLINE uvec round_upper(vec x) {
	uvec u = (uvec)x;
	return (uvec)pick(not_number(x), (vec)(u | 0x400000), (vec)(u + 0x7fff + (u >> 16 & 1)));
}

#if HALVES
// half is bf16 by the instruction for it, which takes denormal numbers for zero.
INLINE hvec half(vec x) { return (hvec)_mm512_cvtneps_pbh((__m512)x); }
#endif

INLINE vec get_vec(const void *p, long i, int b16) {
	return b16 ? (vec)to_upper(*(const hvec *)((const uint16_t *)p + i)) : load((const float *)p + i);
}

INLINE void put_vec(void *p, long i, vec x, int b16) {
	if (b16)
		*(hvec *)((uint16_t *)p + i) = from_upper(round_upper(x));
	else
		store((float *)p + i, x);
}

INLINE cell get_cell(const void *p, long i, int b16) {
	cell c;
	EACH_VEC(q) c.v[q] = get_vec(p, i + q * VL, b16);
	return c;
}

// put_same stores values that came out of the same storage: nothing to round.
INLINE void put_same(void *p, long i, cell c, int b16) {
	if (!b16) {
		EACH_VEC(q) store((float *)p + i + q * VL, c.v[q]);
		return;
	}
	uint16_t *h = (uint16_t *)p + i;
#if VL == 8 && defined(__AVX2__)
	__m256i both = _mm256_packs_epi32((__m256i)((ivec)c.v[0] >> 16), (__m256i)((ivec)c.v[1] >> 16));
	_mm256_storeu_si256((__m256i_u *)h, _mm256_permute4x64_epi64(both, 0xd8));
#else
	EACH_VEC(q) *(hvec *)(h + q * VL) = from_upper((uvec)c.v[q]);
#endif
}

INLINE void put_cell(void *p, long i, cell c, int b16) {
	if (b16) EACH_VEC(q) c.v[q] = (vec)round_upper(c.v[q]);
	put_same(p, i, c, b16);
}

INLINE cell cell_zero(void) { return (cell){0}; }

// acc + w a
INLINE cell cell_add(cell acc, float w, cell a) {
	EACH_VEC(q) acc.v[q] += w * a.v[q];
	return acc;
}

INLINE cell cell_scale(float w, cell a) {
	EACH_VEC(q) a.v[q] *= w;
	return a;
}

// cell_where is a where gate > 0, and 0 elsewhere.
INLINE cell cell_where(cell gate, cell a) {
	EACH_VEC(q) a.v[q] = pick(above(gate.v[q], (vec){0}), a.v[q], (vec){0});
	return a;
}

// block_lanes spreads per channel values over the lanes of a block, zero beyond channel c.
INLINE void block_lanes(float *lanes, const float *per, long block, long c) {
	for (long l = 0; l < CELL; l++) lanes[l] = block * CELL + l < c ? per[block * CELL + l] : 0;
}

// Items of kernels whose cells stand alone: SPREAD cells each, 64 KiB of float32.
enum { SPREAD = CHUNK / CELL };
static inline long spreads(long cells) { return (cells + SPREAD - 1) / SPREAD; }

// A gradient can be added to the values in memory, and set to 0 where the ReLU whose
// result is x was 0: put_grad stores the gradient g of the cell at i. same: g came
// out of the storage.
INLINE void put_grad(void *dx, const void *x, long i, cell g, int mode, int same, int b16) {
	if (mode & ENS_ACCUMULATE) g = cell_add(g, 1, get_cell(dx, i, b16));
	if (mode & ENS_GATE) g = cell_where(get_cell(x, i, b16), g);
	if (same && !(mode & ENS_ACCUMULATE))
		put_same(dx, i, g, b16);
	else
		put_cell(dx, i, g, b16);
}

#include "blocked_copy.inc.h"
#include "blocked_flat.inc.h"
#include "blocked_pool.inc.h"
#include "blocked_upsample.inc.h"
#include "blocked_channel.inc.h"
