// An opened libcublasLt as a table of its functions, and a product that is described to it.
// Functions that can fail return the status, and the name of the call that failed.
#include "api.h"

typedef struct {
#define X(result, name, args) result (*name) args;
	CUBLASLT_FUNCTIONS(X)
#undef X
} ens_lt;

// ens_lt_names are the names of the functions in the order of the table, with blanks between.
extern const char *const ens_lt_names;
size_t ens_lt_version(const ens_lt *t);
const char *ens_lt_name(const ens_lt *t, int status);
const char *ens_lt_text(const ens_lt *t, int status);
int ens_lt_create(const ens_lt *t, void **handle);
int ens_lt_destroy(const ens_lt *t, void *handle);

// A product as cuBLASLt wants it, in columns: d = alpha·op(a)·op(b) + beta·c.
typedef struct {
	int compute, type, result; // of a and b, of c and d
	int trans_a, trans_b, epilogue, batch;
	uint64_t rows[3], cols[3]; // of a, b, d, as they lie
	int64_t ld[3], stride[3];
	float alpha, beta;
} ens_lt_spec;

typedef struct {
	ens_lt_spec s;
	void *desc, *layout[3];
	ens_lt_algo algo;
} ens_lt_product;

enum { ENS_LT_CONFIG = 9 }; // settings of an algorithm, the first its number

// ens_lt_new describes a product; nothing is left where it fails.
int ens_lt_new(const ens_lt *t, const ens_lt_spec *s, ens_lt_product **p, const char **call);
int ens_lt_drop(const ens_lt *t, ens_lt_product *p, const char **call);
// ens_lt_find asks for algorithms, the fastest first, that want no more workspace.
int ens_lt_find(const ens_lt *t, void *handle, ens_lt_product *p, uint64_t workspace, uint32_t alignment, int most,
		ens_lt_result *found, int *n, const char **call);
// ens_lt_read reads the settings of an algorithm.
int ens_lt_read(const ens_lt *t, const ens_lt_algo *a, int64_t *config, const char **call);
// ens_lt_choose sets the algorithm of a product by its settings.
int ens_lt_choose(const ens_lt *t, void *handle, ens_lt_product *p, const int64_t *config, uint64_t *workspace, const char **call);
// ens_lt_take sets the algorithm of a product to one that was found for it.
void ens_lt_take(ens_lt_product *p, const ens_lt_algo *a);
int ens_lt_bias(const ens_lt *t, ens_lt_product *p, uint64_t bias);
int ens_lt_run(const ens_lt *t, void *handle, ens_lt_product *p, const void *a, const void *b, const void *c, void *d,
	       void *workspace, size_t bytes, void *stream);
