//go:build cgo && linux

#include "shim.h"
#include <stdlib.h>

#define X(result, name, args) #name " "
const char *const ens_lt_names = CUBLASLT_FUNCTIONS(X);
#undef X

size_t ens_lt_version(const ens_lt *t) { return t->cublasLtGetVersion(); }
const char *ens_lt_name(const ens_lt *t, int status) { return t->cublasLtGetStatusName(status); }
const char *ens_lt_text(const ens_lt *t, int status) { return t->cublasLtGetStatusString(status); }
int ens_lt_create(const ens_lt *t, void **handle) { return t->cublasLtCreate(handle); }
int ens_lt_destroy(const ens_lt *t, void *handle) { return t->cublasLtDestroy(handle); }

// CALL calls a function and remembers its name and status where it is the first that fails.
#define CALL(f, ...)                                        \
	do {                                                \
		int status = t->f(__VA_ARGS__);             \
		if (status && !rc) { rc = status; *call = #f; } \
	} while (0)
// TRY does so unless one has failed.
#define TRY(f, ...) \
	if (!rc) CALL(f, __VA_ARGS__)

int ens_lt_drop(const ens_lt *t, ens_lt_product *p, const char **call) {
	int rc = 0;
	for (int i = 2; i >= 0; i--)
		if (p->layout[i]) CALL(cublasLtMatrixLayoutDestroy, p->layout[i]);
	if (p->desc) CALL(cublasLtMatmulDescDestroy, p->desc);
	free(p);
	return rc;
}

int ens_lt_bias(const ens_lt *t, ens_lt_product *p, uint64_t bias) {
	return t->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

int ens_lt_new(const ens_lt *t, const ens_lt_spec *s, ens_lt_product **made, const char **call) {
	ens_lt_product *p = calloc(1, sizeof *p);
	int rc = 0;
	p->s = *s;
	TRY(cublasLtMatmulDescCreate, &p->desc, s->compute, CUDA_R_32F);
	TRY(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &p->s.trans_a, sizeof(int32_t));
	TRY(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &p->s.trans_b, sizeof(int32_t));
	TRY(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->s.epilogue, sizeof(uint32_t));
	if (s->epilogue & CUBLASLT_EPILOGUE_BIAS) { // the search looks at its alignment
		uint64_t somewhere = 16;
		TRY(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere, sizeof somewhere);
	}
	for (int i = 0; i < 3; i++) {
		TRY(cublasLtMatrixLayoutCreate, &p->layout[i], i < 2 ? s->type : s->result, s->rows[i], s->cols[i], s->ld[i]);
		TRY(cublasLtMatrixLayoutSetAttribute, p->layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &p->s.batch, sizeof(int32_t));
		TRY(cublasLtMatrixLayoutSetAttribute, p->layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &p->s.stride[i], sizeof(int64_t));
	}
	if (rc) {
		const char *ignored; // the first failure says more
		ens_lt_drop(t, p, &ignored);
		return rc;
	}
	*made = p;
	return 0;
}

int ens_lt_find(const ens_lt *t, void *handle, ens_lt_product *p, uint64_t workspace, uint32_t alignment, int most,
		ens_lt_result *found, int *n, const char **call) {
	int rc = 0;
	void *pref = NULL;
	// Parts of a sum are added up in float32, not in the type of the result, and in one order.
	uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	TRY(cublasLtMatmulPreferenceCreate, &pref);
	TRY(cublasLtMatmulPreferenceSetAttribute, pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
	TRY(cublasLtMatmulPreferenceSetAttribute, pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
	for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
		TRY(cublasLtMatmulPreferenceSetAttribute, pref, i, &alignment, sizeof alignment);
	TRY(cublasLtMatmulAlgoGetHeuristic, handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2], pref, most, found, n);
	if (pref) CALL(cublasLtMatmulPreferenceDestroy, pref);
	return rc;
}

// Settings are of 32 bits, the last two of 16.
static size_t width(int i) { return i < CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 4 : 2; }

int ens_lt_read(const ens_lt *t, const ens_lt_algo *a, int64_t *config, const char **call) {
	int rc = 0;
	for (int i = 0; i < ENS_LT_CONFIG; i++) {
		uint32_t wide = 0;
		uint16_t narrow = 0;
		size_t written;
		TRY(cublasLtMatmulAlgoConfigGetAttribute, a, i, width(i) == 4 ? (void *)&wide : (void *)&narrow, width(i), &written);
		config[i] = width(i) == 4 ? (int64_t)wide : (int64_t)narrow;
	}
	return rc;
}

int ens_lt_choose(const ens_lt *t, void *handle, ens_lt_product *p, const int64_t *config, uint64_t *workspace, const char **call) {
	int rc = 0;
	ens_lt_result r = {0};
	const ens_lt_spec *s = &p->s;
	TRY(cublasLtMatmulAlgoInit, handle, s->compute, CUDA_R_32F, s->type, s->type, s->result, s->result, (int)config[0], &p->algo);
	for (int i = 1; i < ENS_LT_CONFIG; i++) { // the first is only read, and 0 is there from the beginning
		if (!config[i]) continue;
		uint32_t wide = (uint32_t)config[i];
		uint16_t narrow = (uint16_t)config[i];
		TRY(cublasLtMatmulAlgoConfigSetAttribute, &p->algo, i, width(i) == 4 ? (void *)&wide : (void *)&narrow, width(i));
	}
	TRY(cublasLtMatmulAlgoCheck, handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2], &p->algo, &r);
	*workspace = r.workspaceSize;
	return rc;
}

void ens_lt_take(ens_lt_product *p, const ens_lt_algo *a) { p->algo = *a; }

int ens_lt_run(const ens_lt *t, void *handle, ens_lt_product *p, const void *a, const void *b, const void *c, void *d,
	       void *workspace, size_t bytes, void *stream) {
	return t->cublasLtMatmul(handle, p->desc, &p->s.alpha, a, p->layout[0], b, p->layout[1], &p->s.beta, c, p->layout[2], d,
				 p->layout[2], &p->algo, workspace, bytes, stream);
}
