// The language of CUDA kernels on the processor: blocks run one after the other, the
// threads of a block as fibers in turns, which change at barriers and where a warp works
// together. A barrier that not all threads reach ends the process with a message.
#pragma once
#define EMULATED 1
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// Blocks run one after the other, so what a block shares may be static.
#define __shared__ static
#define DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(emulated::shared)

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace emulated {

constexpr size_t stack_bytes = 64 << 10;
constexpr int SHARED_BYTES = 227 << 10;
constexpr int warp_size = 32;

struct fiber {
	jmp_buf at;
	ucontext_t start;
	char *stack = nullptr;
	uint3 thread;
	bool begun = false, done = false;
	long waits_block = 0, waits_warp = 0; // barriers of each kind that it has reached
	uint64_t given[2] = {0, 0};           // what it shows to its warp, by the parity of the barrier
	long copies_ended = 0;                // groups of copies
	int copies = 0;                       // that are not done
};

alignas(1024) static char shared[SHARED_BYTES];
static fiber fibers[1024];
static jmp_buf scheduler;
static ucontext_t scheduler_context;
static int current = 0, threads = 0;
static void (*body)(void *) = nullptr;
static void *body_argument = nullptr;

static inline void yield() {
	if (_setjmp(fibers[current].at) == 0) _longjmp(scheduler, 1);
}

static inline bool others_reached(long fiber::*count, int from, int to) {
	for (int i = from; i < to; i++)
		if (!fibers[i].done && fibers[i].*count < fibers[current].*count) return false;
	return true;
}

// Barriers that all threads have reached, of the block and of each warp; the last thread to arrive sets them.
static long passed_block, passed_warp[1024 / warp_size];

static inline void barrier(long fiber::*count, long &passed, int from, int to) {
	long mine = ++(fibers[current].*count);
	while (passed < mine) {
		if (others_reached(count, from, to))
			passed = mine;
		else
			yield();
	}
}

static inline void block_barrier() { barrier(&fiber::waits_block, passed_block, 0, threads); }

static inline int warp_first() { return current / warp_size * warp_size; }
static inline int warp_last() { return threads < warp_first() + warp_size ? threads : warp_first() + warp_size; }

static inline void warp_barrier() { barrier(&fiber::waits_warp, passed_warp[current / warp_size], warp_first(), warp_last()); }

// exchange shows bits to the warp and gives what lane shows.
template <class T> static inline T exchange(T mine, int lane) {
	static_assert(sizeof(T) <= 8, "a lane shows eight bytes");
	int parity = fibers[current].waits_warp & 1;
	uint64_t bits = 0;
	memcpy(&bits, &mine, sizeof(T));
	fibers[current].given[parity] = bits;
	warp_barrier();
	int from = warp_first() + lane;
	if (lane < 0 || from >= warp_last()) return mine;
	T theirs;
	memcpy(&theirs, &fibers[from].given[parity], sizeof(T));
	return theirs;
}

// show shows a value to the warp and gives what all lanes show, until the next barrier but one.
template <class T> static inline T *show(T mine) {
	static T shown[2][1024];
	T *s = shown[fibers[current].waits_warp & 1];
	s[current] = mine;
	warp_barrier();
	return s + warp_first();
}

// warp_memory is memory that the lanes of a warp share: what they write before the next
// barrier can be read until the one behind it.
template <class T> static inline T *warp_memory() {
	static T memory[2][1024 / warp_size];
	return &memory[fibers[current].waits_warp & 1][current / warp_size];
}

// Copies into shared memory may be done at once or at the last moment. Those of odd threads are late, so that a
// kernel that reads too early, and one that overwrites what others still read, have wrong results.
struct late_copy {
	void *to;
	const void *from;
	size_t bytes;
	bool there;
	long group;
};
constexpr int most_copies = 256;
static late_copy late_copies[1024][most_copies];

static inline void copy_now(const late_copy &c) {
	if (c.there)
		memcpy(c.to, c.from, c.bytes);
	else
		memset(c.to, 0, c.bytes);
}

static inline void copy_async(void *to, const void *from, size_t bytes, bool there) {
	fiber &f = fibers[current];
	late_copy c = {to, from, bytes, there, f.copies_ended};
	if (current % 2 == 0) return copy_now(c);
	if (f.copies == most_copies) {
		fprintf(stderr, "emulated kernel: a thread has more than %d copies in flight\n", most_copies);
		abort();
	}
	late_copies[current][f.copies++] = c;
}

static inline void end_copies() { fibers[current].copies_ended++; }

// wait_copies does the copies of all groups but the newest ones that have ended.
static inline void wait_copies(long groups) {
	fiber &f = fibers[current];
	int left = 0;
	for (int i = 0; i < f.copies; i++) {
		late_copy &c = late_copies[current][i];
		if (c.group < f.copies_ended - groups)
			copy_now(c);
		else
			late_copies[current][left++] = c;
	}
	f.copies = left;
}

// enter runs the thread of block after block: a fiber that is made anew asks the kernel of the
// system for its signals, which takes longer than most threads.
static void enter() {
	for (;;) {
		body(body_argument);
		fibers[current].done = true;
		yield();
	}
}

// run_block runs the fibers in turns until all are done.
static inline void run_block() {
	passed_block = 0;
	for (long &p : passed_warp) p = 0;
	for (int i = 0; i < threads; i++) {
		fiber &f = fibers[i];
		f.done = false;
		f.waits_block = f.waits_warp = f.copies_ended = f.copies = 0;
		f.thread = {unsigned(i) % blockDim.x, unsigned(i) / blockDim.x % blockDim.y, unsigned(i) / blockDim.x / blockDim.y};
	}
	volatile long idle = 0;
	for (;;) {
		volatile bool left = false, moved = false;
		for (volatile int i = 0; i < threads; i = i + 1) {
			fiber &f = fibers[i];
			if (f.done) continue;
			left = true;
			current = i;
			threadIdx = f.thread;
			long before = f.waits_block + f.waits_warp;
			if (_setjmp(scheduler) == 0) {
				if (f.begun) _longjmp(f.at, 1);
				f.begun = true;
				if (!f.stack) f.stack = static_cast<char *>(malloc(stack_bytes));
				getcontext(&f.start);
				f.start.uc_stack.ss_sp = f.stack;
				f.start.uc_stack.ss_size = stack_bytes;
				f.start.uc_link = nullptr;
				makecontext(&f.start, enter, 0);
				setcontext(&f.start);
			}
			if (fibers[i].done || fibers[i].waits_block + fibers[i].waits_warp != before) moved = true;
		}
		if (!left) return;
		idle = moved ? 0 : idle + 1;
		if (idle > 2) {
			fprintf(stderr, "emulated kernel: threads of block (%u %u %u) wait for each other at different barriers\n", blockIdx.x, blockIdx.y, blockIdx.z);
			abort();
		}
	}
}

template <size_t... I> struct numbers {};

template <class... A, size_t... I> static void call(void (*f)(A...), void **args, numbers<I...>) {
	f(*static_cast<A *>(args[I])...);
}

template <class... A> struct bound {
	void (*f)(A...);
	void **args;
	static void run(void *p) {
		auto *b = static_cast<bound *>(p);
		call(b->f, b->args, numbers<__integer_pack(sizeof...(A))...>());
	}
};

// launch runs a kernel over its grid.
template <class... A> static void launch(void (*f)(A...), const unsigned *grid, const unsigned *block, unsigned bytes, void **args) {
	bound<A...> b{f, args};
	body = bound<A...>::run;
	body_argument = &b;
	gridDim = {grid[0], grid[1], grid[2]};
	blockDim = {block[0], block[1], block[2]};
	threads = int(block[0] * block[1] * block[2]);
	memset(shared, 0xa5, bytes);
	for (unsigned z = 0; z < grid[2]; z++)
		for (unsigned y = 0; y < grid[1]; y++)
			for (unsigned x = 0; x < grid[0]; x++) {
				blockIdx = {x, y, z};
				run_block();
			}
}

} // namespace emulated

static inline void __syncthreads() { emulated::block_barrier(); }
static inline void __syncwarp(unsigned = 0xffffffffu) { emulated::warp_barrier(); }
static inline int emulated_lane() { return emulated::current % emulated::warp_size; }
template <class T> static inline T __shfl_sync(unsigned, T v, int lane) { return emulated::exchange(v, lane); }
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask) { return emulated::exchange(v, emulated_lane() ^ mask); }
template <class T> static inline T __shfl_down_sync(unsigned, T v, int by) { return emulated::exchange(v, emulated_lane() + by); }
template <class T> static inline T __shfl_up_sync(unsigned, T v, int by) { return emulated::exchange(v, emulated_lane() - by); }

static inline float __uint_as_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float __int_as_float(int32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline int32_t __float_as_int(float f) { int32_t u; memcpy(&u, &f, 4); return u; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define __expf(x) expf(x)
static inline float __fdividef(float x, float y) { return x / y; }
template <class T> static inline T __ldg(const T *p) { return *p; }
static inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)a * b >> 64); }
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

namespace emulated {

template <class T> struct kind;
template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };
template <class T> struct kind<T *> { static constexpr char name = 'p'; };
template <> struct kind<int32_t> { static constexpr char name = 'i'; };
template <> struct kind<int64_t> { static constexpr char name = 'l'; };
template <> struct kind<long long> { static constexpr char name = 'l'; };
template <> struct kind<uint32_t> { static constexpr char name = 'u'; };
template <> struct kind<uint64_t> { static constexpr char name = 'v'; };
template <> struct kind<unsigned long long> { static constexpr char name = 'v'; };
template <> struct kind<float> { static constexpr char name = 'f'; };

template <class... A> const char *kinds(void (*)(A...)) {
	static const char names[] = {kind<typename plain<A>::type>::name..., 0};
	return names;
}

} // namespace emulated

// What the program calls, for each kernel.
#define EMULATED_ENTRY(name) \
	extern "C" const char *emulated_kinds_##name() { return emulated::kinds(name); } \
	extern "C" void emulated_launch_##name(const unsigned *grid, const unsigned *block, unsigned bytes, void **args) { emulated::launch(name, grid, block, bytes, args); }
