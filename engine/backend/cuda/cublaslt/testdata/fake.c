// Stands in for libcublasLt in tests: it keeps descriptors, knows some algorithms, and
// writes what it is asked into the file FAKE_LOG. FAKE_FAIL="name k" lets the k-th call of a
// function fail; a new value starts counting anew. Algorithm 9 is found and cannot be set,
// algorithm 8 is neither.
#include "../api.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int live, made, context;

static void say(const char *format, ...) {
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return;
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}
static int fails(const char *name) {
	static char seen[128];
	static int count;
	const char *want = getenv("FAKE_FAIL");
	if (!want) want = "";
	if (strcmp(want, seen)) {
		snprintf(seen, sizeof seen, "%s", want);
		count = 0;
	}
	size_t n = strlen(name);
	return !strncmp(want, name, n) && want[n] == ' ' && ++count == atoi(want + n);
}
#define INJECT(name) \
	if (fails(#name)) return 14;

size_t cublasLtGetVersion(void) { return 120903; }
const char *cublasLtGetStatusName(cublasStatus_t s) { return s == 14 ? "CUBLAS_STATUS_INTERNAL_ERROR" : s == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE"; }
const char *cublasLtGetStatusString(cublasStatus_t s) { return s == 14 ? "an internal operation failed" : "in other words"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
	INJECT(cublasLtCreate)
	*h = &context;
	return 0;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
	INJECT(cublasLtDestroy)
	say("live %d\n", live);
	return h != &context;
}

static int new(void **d) {
	int *id = malloc(sizeof *id);
	*id = made++;
	live++;
	*d = id;
	return *id;
}
static void drop(void *d) {
	say("destroy %d\n", *(int *)d);
	free(d);
	live--;
}
static void set(const char *what, void *d, int name, const void *v, size_t n) {
	long long x = n == 8 ? *(const int64_t *)v : *(const int32_t *)v;
	say("%s %d attribute %d of %zu bytes: %lld\n", what, *(int *)d, name, n, x);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale) {
	INJECT(cublasLtMatmulDescCreate)
	say("product %d compute %d scale %d\n", new(d), compute, scale);
	return 0;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { drop(d); INJECT(cublasLtMatmulDescDestroy) return 0; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void *v, size_t n) {
	INJECT(cublasLtMatmulDescSetAttribute)
	set("product", d, name, v, n);
	return 0;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *d, cudaDataType_t type, uint64_t rows, uint64_t cols, int64_t ld) {
	INJECT(cublasLtMatrixLayoutCreate)
	say("layout %d type %d: %d rows, %d columns, %d apart\n", new(d), type, (int)rows, (int)cols, (int)ld);
	return 0;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) { drop(d); INJECT(cublasLtMatrixLayoutDestroy) return 0; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t name, const void *v, size_t n) {
	INJECT(cublasLtMatrixLayoutSetAttribute)
	set("layout", d, name, v, n);
	return 0;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *d) {
	INJECT(cublasLtMatmulPreferenceCreate)
	say("wishes %d\n", new(d));
	return 0;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) { drop(d); INJECT(cublasLtMatmulPreferenceDestroy) return 0; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t d, cublasLtMatmulPreferenceAttributes_t name, const void *v, size_t n) {
	INJECT(cublasLtMatmulPreferenceSetAttribute)
	set("wishes", d, name, v, n);
	return 0;
}

// An algorithm's settings lie in its bytes, of 32 bits each.
static const uint32_t found[][9] = {{21, 5, 3, 2, 1, 0, 7, 0, 2}, {9}, {21, 5, 3, 2, 1, 0, 7, 0, 2}, {66, 0, 1}, {70}};
static uint32_t *config(ens_lt_algo *a) { return (uint32_t *)a->data; }
static size_t workspace(ens_lt_algo *a) { return config(a)[0] == 21 ? 4096 : config(a)[0] == 70 ? 1 << 20 : 0; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t p, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
		cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t w, int most, cublasLtMatmulHeuristicResult_t *r, int *n) {
	INJECT(cublasLtMatmulAlgoGetHeuristic)
	if (getenv("FAKE_NONE") && *getenv("FAKE_NONE")) return 15;
	say("find product %d of %d %d %d %d with %d\n", *(int *)p, *(int *)a, *(int *)b, *(int *)c, *(int *)d, *(int *)w);
	for (*n = 0; *n < most && *n < 5; ++*n) {
		memcpy(r[*n].algo.data, found[*n], sizeof found[0]);
		r[*n].state = 0;
		r[*n].workspaceSize = workspace(&r[*n].algo);
	}
	return h != &context;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t name, void *v, size_t n, size_t *written) {
	INJECT(cublasLtMatmulAlgoConfigGetAttribute)
	if (name > 8 || n != (name < 7 ? 4 : 2)) return 7;
	memcpy(v, &config((ens_lt_algo *)a)[name], *written = n);
	return 0;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t h, cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
		cudaDataType_t c, cudaDataType_t d, int id, cublasLtMatmulAlgo_t *out) {
	INJECT(cublasLtMatmulAlgoInit)
	say("algorithm %d compute %d scale %d of %d %d %d %d\n", id, compute, scale, a, b, c, d);
	memset(out, 0, sizeof *out);
	config(out)[0] = id;
	return h != &context;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t name, const void *v, size_t n) {
	INJECT(cublasLtMatmulAlgoConfigSetAttribute)
	if (name < 1 || name > 8 || n != (name < 7 ? 4 : 2)) return 7;
	memcpy(&config(a)[name], v, n);
	return 0;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t p, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
		cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *r) {
	INJECT(cublasLtMatmulAlgoCheck)
	ens_lt_algo *x = (ens_lt_algo *)algo;
	r->workspaceSize = workspace(x);
	return config(x)[0] == 9 || config(x)[0] == 8 ? 15 : h != &context || !p || !a || !b || c != d;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t p, const void *alpha, const void *a, cublasLtMatrixLayout_t la, const void *b,
		cublasLtMatrixLayout_t lb, const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
		const cublasLtMatmulAlgo_t *algo, void *scratch, size_t bytes, cudaStream_t stream) {
	INJECT(cublasLtMatmul)
	uint32_t *s = config((ens_lt_algo *)algo);
	say("run algorithm %d cluster %d: %p = %g %p %p + %g %p, %zu bytes at %p, stream %p\n", s[0], s[8], d, *(const float *)alpha, a, b, *(const float *)beta, c, bytes, scratch, stream);
	return h != &context || !p || !la || !lb || lc != ld;
}
