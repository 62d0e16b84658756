/* What makes values of numbers, for this folder and ../packed. */

#pragma GCC optimize("fp-contract=off") /* products are rounded before sums */

/* Loops are written so that the compiler makes vectors of them, for the processor at hand. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#if __GNUC__ >= 12
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else /* which has no name for the level */
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define VECTORS
#endif

#define VALUE(x) (float)(((double)(x)*binary + reference) * decimal)
