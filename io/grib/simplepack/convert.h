/* Conversion of integers to values, shared with ../ccsds. */

#pragma GCC optimize("fp-contract=off") /* no fused multiply-add: products are rounded before sums */

/* The compiler vectorises these loops, for several levels of the instruction set. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#if __GNUC__ >= 12
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else /* this compiler does not know the level */
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define VECTORS
#endif

#define VALUE(x) (float)(((double)(x)*binary + reference) * decimal)
