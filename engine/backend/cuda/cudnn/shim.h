// An opened libcudnn, as a table of its functions.
#include "api.h"

typedef struct {
#define X(result, name, args) result (*name) args;
	CUDNN_FUNCTIONS(X)
#undef X
} ens_cudnn;

// ens_cudnn_names are the names of the functions in the order of the table, with blanks between.
extern const char *const ens_cudnn_names;

size_t ens_cudnn_version(const ens_cudnn *t);
const char *ens_cudnn_error(const ens_cudnn *t, int status);
void ens_cudnn_last_error(const ens_cudnn *t, char *text, size_t room);
int ens_cudnn_create(const ens_cudnn *t, void **handle);
int ens_cudnn_destroy(const ens_cudnn *t, void *handle);
int ens_cudnn_stream(const ens_cudnn *t, void *handle, void *stream);
int ens_cudnn_make(const ens_cudnn *t, int kind, void **d);
int ens_cudnn_drop(const ens_cudnn *t, void *d);
int ens_cudnn_finalize(const ens_cudnn *t, void *d);
int ens_cudnn_set(const ens_cudnn *t, void *d, int name, int type, int64_t n, const void *values);
int ens_cudnn_get(const ens_cudnn *t, void *d, int name, int type, int64_t n, int64_t *got, void *values);
int ens_cudnn_execute(const ens_cudnn *t, void *handle, void *plan, void *pack);
