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
typedef struct { ivec v[CV]; } cell_mask;

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

INLINE ivec either(ivec m, ivec a, ivec b) { return (m & a) | (~m & b); }

INLINE vec get_vec(const void *p, long i, int b16) {
	if (!b16) return *(const vec *)((const float *)p + i);
	return (vec)(__builtin_convertvector(*(const hvec *)((const uint16_t *)p + i), uvec) << 16);
}

INLINE void put_vec(void *p, long i, vec x, int b16) {
	if (!b16) {
		*(vec *)((float *)p + i) = x;
		return;
	}
	uvec u = (uvec)x, r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	r = (uvec)either((ivec)(x != x), (ivec)(u >> 16 | 0x40), (ivec)r);
	*(hvec *)((uint16_t *)p + i) = __builtin_convertvector(r, hvec);
}

INLINE cell get_cell(const void *p, long i, int b16) {
	cell c;
	EACH_VEC(q) c.v[q] = get_vec(p, i + q * VL, b16);
	return c;
}

INLINE void put_cell(void *p, long i, cell c, int b16) {
	EACH_VEC(q) put_vec(p, i + q * VL, c.v[q], b16);
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

INLINE cell cell_either(cell_mask m, cell a, cell b) {
	EACH_VEC(q) a.v[q] = (vec)either(m.v[q], (ivec)a.v[q], (ivec)b.v[q]);
	return a;
}

INLINE cell_mask cell_positive(cell a) {
	cell_mask m;
	EACH_VEC(q) m.v[q] = a.v[q] > 0;
	return m;
}

// block_lanes spreads per channel values over the lanes of a block, zero beyond channel c.
INLINE void block_lanes(float *lanes, const float *per, long block, long c) {
	for (long l = 0; l < CELL; l++) lanes[l] = block * CELL + l < c ? per[block * CELL + l] : 0;
}

// Items of kernels whose cells stand alone: SPREAD cells each, 64 KiB of float32.
enum { SPREAD = CHUNK / CELL };
static inline long spreads(long cells) { return (cells + SPREAD - 1) / SPREAD; }

// A result's gradient can be added to what is there, and cut where the ReLU
// that made x was: put_grad stores the gradient g of the cell at i.
INLINE void put_grad(void *dx, const void *x, long i, cell g, int mode, int b16) {
	if (mode & ENS_ACCUMULATE) g = cell_add(g, 1, get_cell(dx, i, b16));
	if (mode & ENS_GATE) g = cell_either(cell_positive(get_cell(x, i, b16)), g, cell_zero());
	put_cell(dx, i, g, b16);
}

#include "blocked_copy.inc.h"
#include "blocked_flat.inc.h"
#include "blocked_pool.inc.h"
#include "blocked_upsample.inc.h"
#include "blocked_channel.inc.h"
