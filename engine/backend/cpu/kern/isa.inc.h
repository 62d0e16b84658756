// Every kernel family, compiled once for the instruction set that the
// including file selected. All names are static: one set per file.
#pragma GCC optimize("no-math-errno,no-trapping-math")
#include "kern.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

float sqrtf(float) __attribute__((const)); // it sets no errno here: loops over it become vectors

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// Loops over disjoint or identical tensors: no iteration reads what another writes.
#define EACH(i, lo, hi) _Pragma("GCC ivdep") for (long i = (lo); i < (hi); i++)

// Elementwise work is cut into pieces of CHUNK float32 (64 KiB).
enum { CHUNK = 16384 };
static inline long pieces(long n) { return (n + CHUNK - 1) / CHUNK; }

#include "math.inc.h"
#include "elementwise.inc.h"
#include "broadcast.inc.h"
#include "reduce.inc.h"
#include "crps.inc.h"
#include "set.inc.h"
#include "attention.inc.h"
#include "optim.inc.h"
#include "copy.inc.h"
#include "maxpool.inc.h"
#include "products.inc.h"
#include "upsample.inc.h"
#include "conv.inc.h"
#include "gemm.inc.h"
#include "gram.inc.h"
#include "transpose.inc.h"
#include "convnaive.inc.h"
#include "axis.inc.h"
#include "pointnorm.inc.h"
#include "blocked.inc.h"
#include "chain.inc.h"
#include "narrow.inc.h"
#include "wino.inc.h"
#include "winosparse.inc.h"
#include "winoint8.inc.h"
#include "dropout.inc.h"
#include "point.inc.h"
