// Elementwise on blocked tensors: zero stays zero in the padding lanes, so the
// kernel needs neither the shape nor the layout.

typedef struct {
	void *z;
	const void *a, *b, *gate;
	int relu;
	long n;
} flat_job;

#define FLAT(value) EACH(i, lo, hi) { float t = value; put(j->z, i, t, b16); }
// What is chosen from a stays as it is stored.
#define FLAT_CHOICE(keep)                                                                            \
	if (b16)                                                                                         \
		EACH(i, lo, hi) ((uint16_t *)j->z)[i] = keep ? ((const uint16_t *)a)[i] : 0;                 \
	else                                                                                             \
		EACH(i, lo, hi) ((float *)j->z)[i] = keep ? ((const float *)a)[i] : 0;

// Signs of stored values: > 0, and < 0.
INLINE int positive(const void *p, long i, int b16) {
	return b16 ? (uint16_t)(((const uint16_t *)p)[i] - 1) < 0x7f80 : ((const float *)p)[i] > 0;
}

INLINE int negative(const void *p, long i, int b16) {
	return b16 ? (uint16_t)(((const uint16_t *)p)[i] - 0x8001) < 0x7f80 : ((const float *)p)[i] < 0;
}

INLINE void add_item(const flat_job *j, long item, const int b16) {
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	const void *a = j->a, *b = j->b, *gate = j->gate;
	if (gate && b)
		FLAT(positive(gate, i, b16) ? get(a, i, b16) + get(b, i, b16) : 0)
	else if (gate) {
		FLAT_CHOICE(positive(gate, i, b16))
	} else if (b && j->relu)
		FLAT((t = get(a, i, b16) + get(b, i, b16)) < 0 ? 0 : t)
	else if (b)
		FLAT(get(a, i, b16) + get(b, i, b16))
	else if (j->relu) {
		FLAT_CHOICE(!negative(a, i, b16))
	} else {
		FLAT_CHOICE(1)
	}
}
STORED(add_item)

// z = a + b where gate > 0 and 0 elsewhere, or its ReLU; b and gate may be null.
static void k_blocked_add(ens_pool *p, int b16, void *z, const void *a, const void *b, const void *gate, int relu, long n) {
	flat_job j = {z, a, b, gate, relu, n};
	ens_parallel(p, PICK(add_item, b16), &j, pieces(n));
}

INLINE void mul_item(const flat_job *j, long item, const int b16) {
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	FLAT(get(j->a, i, b16) * get(j->b, i, b16))
}
STORED(mul_item)

// z = a b.
static void k_blocked_mul(ens_pool *p, int b16, void *z, const void *a, const void *b, long n) {
	flat_job j = {z, a, b, 0, 0, n};
	ens_parallel(p, PICK(mul_item, b16), &j, pieces(n));
}

static void widen_item(void *v, long item) {
	const flat_job *j = v;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) put(j->z, i, get(j->a, i, 1), 0);
}

static void to_bf16_item(void *v, long item) {
	const flat_job *j = v;
	long lo = item * CHUNK, hi = MIN(lo + CHUNK, j->n);
	EACH(i, lo, hi) put(j->z, i, get(j->a, i, 0), 1);
}

// z = x, from float32 to bfloat16 (to16) or from bfloat16 to float32.
static void k_convert(ens_pool *p, int to16, void *z, const void *x, long n) {
	flat_job j = {z, x, 0, 0, 0, n};
	ens_parallel(p, to16 ? to_bf16_item : widen_item, &j, pieces(n));
}
