// The functions of an opened libnccl.
#include "api.h"

typedef struct {
#define X(result, name, args) result (*name) args;
	NCCL_FUNCTIONS(X)
#undef X
} ens_nccl;

// ens_nccl_names holds the names of the functions in the order of the table, separated by spaces.
extern const char *const ens_nccl_names;
int ens_nccl_version(const ens_nccl *t, int *version);
int ens_nccl_id(const ens_nccl *t, char *id);
int ens_nccl_init(const ens_nccl *t, void **comm, int ranks, const char *id, int rank);
int ens_nccl_destroy(const ens_nccl *t, void *comm);
int ens_nccl_abort(const ens_nccl *t, void *comm);
int ens_nccl_async(const ens_nccl *t, void *comm, int *state);
const char *ens_nccl_error(const ens_nccl *t, int status);
const char *ens_nccl_last(const ens_nccl *t, void *comm);
int ens_nccl_reduce(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream);
int ens_nccl_scatter(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream);
int ens_nccl_gather(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream);
int ens_nccl_send(const ens_nccl *t, const void *from, size_t bytes, int rank, void *comm, void *stream);
int ens_nccl_recv(const ens_nccl *t, void *to, size_t bytes, int rank, void *comm, void *stream);
int ens_nccl_begin(const ens_nccl *t);
int ens_nccl_end(const ens_nccl *t);
