// Matrix units and copies into shared memory. On a device these are single instructions
// (PTX ISA, "Matrix multiply-accumulate operation using mma instruction" and "ldmatrix");
// under emulation a warp shows its registers to each other, in the same places. A unit is
// 16 bytes: eight bf16 or f16, or four floats; the layouts in units are the same for both.
//
// Lane l, with row g = l/4 and column t = l%4, holds of an m16n8 product
//
//	bf16, f16, k16: A[g + 8(i%2)][2t + 8(i/2) + {0 1}] in a[i],   B[2t + 8i + {0 1}][g] in b[i]
//	tf32, k8:       A[g + 8(i%2)][t + 4(i/2)] in a[i],            B[t + 4i][g] in b[i]
//	all:            C[g + 8(i/2)][2t + i%2] in c[i]

#ifndef EMULATED
struct __align__(16) unit {
	uint32_t x, y, z, w;
};
#else
struct alignas(16) unit {
	uint32_t x, y, z, w;
};
#endif

// copy_unit copies 16 bytes of global memory to shared memory, or clears them. It is done
// after copies_left.
DEVICE void copy_unit(unit *to, const void *from, bool there) {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
#elif defined(EMULATED)
	emulated::copy_async(to, from, sizeof(unit), there);
#else
	unit none = {0, 0, 0, 0};
	*to = there ? *static_cast<const unit *>(from) : none;
#endif
}

// copy_unit_once is copy_unit of what no other copy of this block reads: it leaves the first
// cache as it is.
DEVICE void copy_unit_once(unit *to, const void *from, bool there) {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
#else
	copy_unit(to, from, there);
#endif
}

// copy_half is copy_unit of the 8 bytes of half a unit.
DEVICE void copy_half(uint2 *to, const uint2 *from, bool there) {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(there ? 8 : 0) : "memory");
#elif defined(EMULATED)
	emulated::copy_async(to, from, sizeof(uint2), there);
#else
	uint2 none = {0, 0};
	*to = there ? *from : none;
#endif
}

// copies_end ends a group of copies, and copies_left waits until only so many groups,
// the newest, are not done.
DEVICE void copies_end() {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#elif defined(EMULATED)
	emulated::end_copies();
#endif
}
template <int GROUPS> DEVICE void copies_left() {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#elif defined(EMULATED)
	emulated::wait_copies(GROUPS);
#endif
}

// load_matrices reads four matrices of 8 rows of a unit each: lanes 8i to 8i + 7 say where
// the rows of matrix i lie, and lane l gets word l%4 of row l/4 of matrix i in r[i].
DEVICE void load_matrices(uint32_t r[4], const unit *row) {
#ifndef EMULATED
#if __CUDA_ARCH__ >= 750
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
#else
	const unit *const *rows = emulated::show(row);
	int lane = emulated_lane();
	for (int i = 0; i < 4; i++)
		r[i] = reinterpret_cast<const uint32_t *>(rows[8 * i + lane / 4])[lane % 4];
#endif
}

// load_turned is load_matrices with matrices of 16-bit values turned over their diagonal:
// lane l gets column l/4 of rows 2(l%4) and 2(l%4) + 1.
DEVICE void load_turned(uint32_t r[4], const unit *row) {
#ifndef EMULATED
#if __CUDA_ARCH__ >= 750
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
#else
	const unit *const *rows = emulated::show(row);
	int lane = emulated_lane();
	for (int i = 0; i < 4; i++) {
		uint32_t low = reinterpret_cast<const uint16_t *>(rows[8 * i + 2 * (lane % 4)])[lane / 4];
		uint32_t high = reinterpret_cast<const uint16_t *>(rows[8 * i + 2 * (lane % 4) + 1])[lane / 4];
		r[i] = low | high << 16;
	}
#endif
}

// to_tf32 rounds a float to the 11 bits that the matrix units read of it.
DEVICE uint32_t to_tf32(uint32_t x) {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
	uint32_t r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(x)));
	return r;
#else
	return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u;
#endif
}

// The kind of a product is that of its storage.
struct of_bf16 {};
struct of_f16 {};
struct of_tf32 {};
DEVICE of_bf16 kind_of(const bf16 *) { return {}; }
DEVICE of_f16 kind_of(const f16 *) { return {}; }
DEVICE of_tf32 kind_of(const float *) { return {}; }

#ifndef EMULATED
DEVICE void product(of_bf16, float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
DEVICE void product(of_f16, float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif __CUDA_ARCH__ >= 750 // halves of the depth, whose registers are those of the whole
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#endif
}
DEVICE void product(of_tf32, float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#else
// spread writes the values of a register of lane (g, t) of a matrix of 16-byte rows to
// row g, of k values from the word t of unit u on.
static inline void spread(of_bf16, float *row, int u, int t, uint32_t r) { unpack(static_cast<bf16 *>(nullptr), r, row + 8 * u + 2 * t); }
static inline void spread(of_f16, float *row, int u, int t, uint32_t r) { unpack(static_cast<f16 *>(nullptr), r, row + 8 * u + 2 * t); }
static inline void spread(of_tf32, float *row, int u, int t, uint32_t r) { row[4 * u + t] = __uint_as_float(r & 0xffffe000u); }
static inline constexpr int depth_of(of_bf16) { return 16; }
static inline constexpr int depth_of(of_f16) { return 16; }
static inline constexpr int depth_of(of_tf32) { return 8; }
#endif

// products is c[i][j] += a[i]·b[j].
template <class KIND, int I, int J> DEVICE void products(KIND kind, float (&c)[I][J][4], const uint32_t (&a)[I][4], const uint32_t (&b)[J][2]) {
#ifndef EMULATED
#pragma unroll
	for (int i = 0; i < I; i++)
#pragma unroll
		for (int j = 0; j < J; j++)
			product(kind, c[i][j], a[i], b[j]);
#else
	struct shown {
		float a[I][16][16], b[J][8][16];
	};
	shown *s = emulated::warp_memory<shown>();
	int g = emulated_lane() / 4, t = emulated_lane() % 4;
	for (int i = 0; i < I; i++)
		for (int k = 0; k < 4; k++)
			spread(kind, s->a[i][g + 8 * (k % 2)], k / 2, t, a[i][k]);
	for (int j = 0; j < J; j++)
		for (int k = 0; k < 2; k++)
			spread(kind, s->b[j][g], k, t, b[j][k]);
	emulated::warp_barrier();
	for (int i = 0; i < I; i++)
		for (int j = 0; j < J; j++)
			for (int v = 0; v < 4; v++) {
				const float *x = s->a[i][g + 8 * (v / 2)], *y = s->b[j][2 * t + v % 2];
				float sum = c[i][j][v];
				for (int k = 0; k < depth_of(kind); k++)
					sum += x[k] * y[k];
				c[i][j][v] = sum;
			}
#endif
}

// Products of integers are sums in int32 of signed A and unsigned B, exact as long as they stay below 2³¹
// ("Matrix Fragments for mma.m16n8k32", PTX ISA; compute capability 8.0 and later). Lane l, with g = l/4
// and t = l%4, holds
//
//	A[g + 8(i%2)][4t + 16(i/2) + {0 1 2 3}] in a[i],   B[4t + 16i + {0 1 2 3}][g] in b[i]
#ifndef EMULATED
DEVICE void integer_product(int32_t c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

// integer_products is c[j] += a·b[j].
template <int J> DEVICE void integer_products(int32_t (&c)[J][4], const uint32_t (&a)[4], const uint32_t (&b)[J][2]) {
#ifndef EMULATED
#pragma unroll
	for (int j = 0; j < J; j++)
		integer_product(c[j], a, b[j]);
#else
	struct shown {
		int8_t a[16][32];
		uint8_t b[J][8][32];
	};
	shown *s = emulated::warp_memory<shown>();
	int g = emulated_lane() / 4, t = emulated_lane() % 4;
	for (int i = 0; i < 4; i++)
		memcpy(&s->a[g + 8 * (i % 2)][4 * t + 16 * (i / 2)], &a[i], 4);
	for (int j = 0; j < J; j++)
		for (int i = 0; i < 2; i++)
			memcpy(&s->b[j][g][4 * t + 16 * i], &b[j][i], 4);
	emulated::warp_barrier();
	for (int j = 0; j < J; j++)
		for (int v = 0; v < 4; v++)
			for (int k = 0; k < 32; k++)
				c[j][v] += s->a[g + 8 * (v / 2)][k] * s->b[j][2 * t + v % 2][k];
#endif
}

// Sparse products are c += a·b with the 2:4 pattern in A: of four values side by side in a row of A at
// least two are zero, and the others are in a, with their places in the metadata ("mma.sp", PTX ISA,
// "Matrix multiply-accumulate operation using mma.sp instruction with sparse matrix A"; compute
// capability 8.0 and later). Lane l, with g = l/4 and t = l%4, holds of an m16n8k32 product of 16-bit values
//
//	stored A[g + 8(i%2)][2t + 8(i/2) + {0 1}] in a[i],   B[2t + 8i + {0 1}][g] in b[i],   C as above
//
// Stored columns 2q and 2q + 1 of a row are two values of columns 4q to 4q + 3 of A, at the places that
// four bits of metadata say: two bits for each, the lower place in the lower bits. Row r has the bits of
// its quads 4h to 4h + 3 in lane 4(r%8) + 2·SELECTOR + h, the upper half of the word for r ≥ 8.
// Instructions with ordered metadata want places in order, as here; they exist since PTX 8.5.
#ifndef EMULATED
#if __CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5
#define SPARSE_MMA "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32"
#else
#define SPARSE_MMA "mma.sp.sync.aligned.m16n8k32.row.col.f32"
#endif
#define SPARSE_PRODUCT(type) \
	asm volatile(SPARSE_MMA "." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;" \
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata), "n"(SELECTOR))
template <int SELECTOR> DEVICE void sparse_product(of_bf16, float c[4], const uint32_t a[4], const uint32_t b[4], uint32_t metadata) {
#if __CUDA_ARCH__ >= 800
	SPARSE_PRODUCT("bf16");
#endif
}
template <int SELECTOR> DEVICE void sparse_product(of_f16, float c[4], const uint32_t a[4], const uint32_t b[4], uint32_t metadata) {
#if __CUDA_ARCH__ >= 800
	SPARSE_PRODUCT("f16");
#endif
}
#else
// A place that is not behind the one before is not defined on a device: the sum is no number here.
template <int SELECTOR, class KIND> static inline void sparse_product(KIND kind, float c[4], const uint32_t a[4], const uint32_t b[4], uint32_t metadata) {
	struct shown {
		float a[16][16], b[8][32];
		uint32_t metadata[32];
	};
	shown *s = emulated::warp_memory<shown>();
	int lane = emulated_lane(), g = lane / 4, t = lane % 4;
	for (int i = 0; i < 4; i++) {
		spread(kind, s->a[g + 8 * (i % 2)], i / 2, t, a[i]);
		spread(kind, s->b[g], i, t, b[i]);
	}
	s->metadata[lane] = metadata;
	emulated::warp_barrier();
	for (int v = 0; v < 4; v++) {
		int row = g + 8 * (v / 2), column = 2 * t + v % 2;
		for (int q = 0; q < 8; q++) {
			uint32_t word = s->metadata[row % 8 * 4 + 2 * SELECTOR + q / 4], places = word >> (row / 8 * 16 + q % 4 * 4);
			uint32_t lower = places & 3, upper = places >> 2 & 3;
			c[v] += s->a[row][2 * q] * s->b[column][4 * q + lower] + s->a[row][2 * q + 1] * s->b[column][4 * q + upper];
			if (lower >= upper)
				c[v] = NAN;
		}
	}
}
#endif

// sparse_products is c[i] += a[i]·b. Lanes 0 and 1 of every four have the metadata of the even
// products i in metadata[i/2], lanes 2 and 3 that of the odd ones.
template <class KIND, int I> DEVICE void sparse_products(KIND kind, float (&c)[I][4], const uint32_t (&a)[I][4], const uint32_t (&b)[4],
	const uint32_t (&metadata)[(I + 1) / 2]) {
#pragma unroll
	for (int i = 0; i < I; i++)
		if (i % 2 == 0)
			sparse_product<0>(kind, c[i], a[i], b, metadata[i / 2]);
		else
			sparse_product<1>(kind, c[i], a[i], b, metadata[i / 2]);
}

// Compute capability 7.0 multiplies float16 in quads: four products of 8×8 of a depth of 4 at once,
// each by two groups of four lanes, 16 lanes apart ("mma.m8n8k4"). Here they make one product of 16×16:
// quads 0 and 1 its upper and lower left, 2 and 3 its right. Lane l, with q = l/4%4, t = l%4 and
// h = 4(l/16), holds of it
//
//	A[8(q%2) + h + t][{0 1 2 3}] in a,   B[{0 1 2 3}][8(q/2) + h + t] in b
//	turned: A[8(q%2) + h + {0 1 2 3}][t] in a,   B[t][8(q/2) + h + {0 1 2 3}] in b
//	C[8(q%2) + h + l%2 + (i&2)][8(q/2) + (i&4) + (l&2) + i%2] in c[i]

// quad_row and quad_column are where the rows of A, and columns of B, of a lane lie, or begin where
// they are turned.
DEVICE int quad_row(int lane, bool turned) { return lane / 4 % 2 * 8 + lane / 16 * 4 + (turned ? 0 : lane % 4); }
DEVICE int quad_column(int lane, bool turned) { return lane / 8 % 2 * 8 + lane / 16 * 4 + (turned ? 0 : lane % 4); }

// sum_row and sum_column are where c[i] lies.
DEVICE int sum_row(int lane, int i) { return quad_row(lane, true) + lane % 2 + (i & 2); }
DEVICE int sum_column(int lane, int i) { return lane / 8 % 2 * 8 + (i & 4) + (lane & 2) + i % 2; }

// held_row and held_column are where value v of the HELD that a lane has of a product lies in it: of
// one of quads with 8.
template <int HELD> DEVICE int held_row(int lane, int v) { return HELD == 8 ? sum_row(lane, v) : lane / 4 + v / 2 * 8; }
template <int HELD> DEVICE int held_column(int lane, int v) { return HELD == 8 ? sum_column(lane, v) : lane % 4 * 2 + v % 2; }

// quads is c[i][j] += a[i]·b[j].
template <bool TURNED, int I, int J> DEVICE void quads(float (&c)[I][J][8], const uint2 (&a)[I], const uint2 (&b)[J]) {
#ifndef EMULATED
#if __CUDA_ARCH__ >= 700 && __CUDA_ARCH__ < 750
#define QUAD_SUMS(c) "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
#pragma unroll
	for (int i = 0; i < I; i++)
#pragma unroll
		for (int j = 0; j < J; j++)
			if (TURNED)
				asm volatile("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
					: QUAD_SUMS(c[i][j]) : "r"(a[i].x), "r"(a[i].y), "r"(b[j].x), "r"(b[j].y));
			else
				asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
					: QUAD_SUMS(c[i][j]) : "r"(a[i].x), "r"(a[i].y), "r"(b[j].x), "r"(b[j].y));
#endif
#else
	struct shown {
		float a[I][16][4], b[J][16][4]; // rows of A and columns of B
	};
	shown *s = emulated::warp_memory<shown>();
	int lane = emulated_lane(), row = quad_row(lane, TURNED), column = quad_column(lane, TURNED);
	auto spread4 = [&](float (*to)[4], int at, uint2 r) {
		float v[4];
		unpack(static_cast<f16 *>(nullptr), r.x, v);
		unpack(static_cast<f16 *>(nullptr), r.y, v + 2);
		for (int k = 0; k < 4; k++)
			(TURNED ? to[at + k][lane % 4] : to[at][k]) = v[k];
	};
	for (int i = 0; i < I; i++)
		spread4(s->a[i], row, a[i]);
	for (int j = 0; j < J; j++)
		spread4(s->b[j], column, b[j]);
	emulated::warp_barrier();
	for (int i = 0; i < I; i++)
		for (int j = 0; j < J; j++)
			for (int v = 0; v < 8; v++)
				for (int k = 0; k < 4; k++)
					c[i][j][v] += s->a[i][sum_row(lane, v)][k] * s->b[j][sum_column(lane, v)][k];
#endif
}

// Warpgroups: four warps multiply 64 rows of A by up to 256 columns of B, both read from shared
// memory, while they do other work ("wgmma", PTX ISA, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions"; compute capability 9.0 only). Warp w of a group holds rows
// 16w to 16w + 15 of the sums, each product of 16×8 as above.
//
// Rows of shared memory are 128 bytes, swizzled: unit u of row r lies at r·8 + u with its lowest
// three bits changed by those of r (swizzled). The buffers begin at multiples of 1024 bytes.
// In rows (TURNED false) lie 64 values of the summed index of one row of A, or column of B. Turned,
// in a row lie 64 rows of A, or columns of B, at one summed index.

// swizzled is where a unit of a buffer lies.
DEVICE int swizzled(int unit) { return unit ^ (unit >> 3 & 7); }

// aligned_units is the first unit of shared memory at a multiple of 1024 bytes, for buffers that swizzle.
DEVICE unit *aligned_units(unit *from) {
#ifndef EMULATED
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(from));
	return from + (((at + 1023) & ~1023u) - at) / 16;
#else
	return from + (64 - reinterpret_cast<uintptr_t>(from) / 16 % 64) % 64;
#endif
}

// copies_shown lets warpgroups read what copies of this thread, and its stores, have written to shared
// memory. It is between copies_left and the barrier.
DEVICE void copies_shown() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(EMULATED)
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// groups_begin precedes group_products after the sums were written otherwise, groups_end ends a batch of
// them, and groups_left waits until only so many batches, the newest, are not done.
DEVICE void groups_begin() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(EMULATED)
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
DEVICE void groups_end() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(EMULATED)
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int BATCHES> DEVICE void groups_left() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(EMULATED)
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(BATCHES) : "memory");
#endif
}

// keep_sums keeps reads and writes of the sums on their side of it.
template <int J> DEVICE void keep_sums(float (&c)[J][4]) {
#ifndef EMULATED
#pragma unroll
	for (int j = 0; j < J; j++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			asm volatile("" : "+f"(c[j][i])::"memory");
#endif
}

#ifndef EMULATED
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// matrix_of describes a matrix that begins at a unit. TURNED, blocks of 64 rows or columns are
// `block` units apart; eight rows of shared memory are always 1024 bytes apart.
DEVICE uint64_t matrix_of(const unit *from, int block) {
	uint64_t at = static_cast<uint32_t>(__cvta_generic_to_shared(from));
	return (at & 0x3ffff) >> 4 | static_cast<uint64_t>(block & 0x3fff) << 16 | static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}
#define SUMS4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define SUMS16(j) SUMS4(j), SUMS4(j + 1), SUMS4(j + 2), SUMS4(j + 3)
#define SUMS32(j) SUMS16(j), SUMS16(j + 4)
#define SUMS64(j) SUMS32(j), SUMS32(j + 8)
#define SUMS128(j) SUMS64(j), SUMS64(j + 16)
#define NAMES32 \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES128 \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
	"%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
	"%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
	"%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
	"%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GROUP_PRODUCT(columns, values, type, turned) \
	asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;\n" \
		"wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" NAMES##values "}, " MATRICES##values ", p, 1, 1, " turned ", " turned ";}" \
		: SUMS##values(0) : "l"(a), "l"(b))
#define MATRICES32 "%32, %33"
#define MATRICES64 "%64, %65"
#define MATRICES128 "%128, %129"
#define GROUP_PRODUCTS(columns, values) \
	template <bool TURNED> DEVICE void group_product(of_bf16, float (&c)[values / 4][4], uint64_t a, uint64_t b) { \
		if (TURNED) \
			GROUP_PRODUCT(columns, values, "bf16", "1"); \
		else \
			GROUP_PRODUCT(columns, values, "bf16", "0"); \
	} \
	template <bool TURNED> DEVICE void group_product(of_f16, float (&c)[values / 4][4], uint64_t a, uint64_t b) { \
		if (TURNED) \
			GROUP_PRODUCT(columns, values, "f16", "1"); \
		else \
			GROUP_PRODUCT(columns, values, "f16", "0"); \
	}
GROUP_PRODUCTS(64, 32)
GROUP_PRODUCTS(128, 64)
GROUP_PRODUCTS(256, 128)
#endif
#else
// value_at is the value of a matrix at a row of A, or a column of B, and at an index k of the sum.
template <bool TURNED, class N> static inline float value_at(const N *, const unit *from, int block, int row, int k) {
	int at = TURNED ? row / 64 * block + k * 8 + row % 64 / 8 : row * 8 + k / 8;
	uintptr_t linear = reinterpret_cast<uintptr_t>(from + at);
	return value_of(reinterpret_cast<const N *>(linear ^ (linear >> 3 & 0x70))[TURNED ? row % 8 : k % 8]);
}
#endif

// group_products is c += a·b for 16 values of the summed index: 64 rows of A and 8·J columns of B, as
// rows of shared memory that begin at a and b. TURNED, blocks of 64 columns are `block` units apart.
template <bool TURNED, class N, int J> DEVICE void group_products(const N *stored, float (&c)[J][4], const unit *a, const unit *b, int block) {
#ifndef EMULATED
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
	group_product<TURNED>(kind_of(stored), c, matrix_of(a, block), matrix_of(b, block));
#endif
#else
	int lane = emulated_lane(), first = emulated::current / 32 % 4 * 16;
	for (int j = 0; j < J; j++)
		for (int v = 0; v < 4; v++) {
			int row = first + held_row<4>(lane, v), column = j * 8 + held_column<4>(lane, v);
			for (int k = 0; k < 16; k++)
				c[j][v] += value_at<TURNED>(stored, a, block, row, k) * value_at<TURNED>(stored, b, block, column, k);
		}
#endif
}
