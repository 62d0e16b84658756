//go:build cgo && linux

#include "shim.h"
#include <string.h>

#define X(result, name, args) #name " "
const char *const ens_nccl_names = NCCL_FUNCTIONS(X);
#undef X

int ens_nccl_version(const ens_nccl *t, int *version) { return t->ncclGetVersion(version); }
int ens_nccl_id(const ens_nccl *t, char *id) { return t->ncclGetUniqueId((ncclUniqueId *)id); }
int ens_nccl_init(const ens_nccl *t, void **comm, int ranks, const char *id, int rank) {
	ncclUniqueId u;
	memcpy(&u, id, sizeof u);
	return t->ncclCommInitRank(comm, ranks, u, rank);
}
int ens_nccl_destroy(const ens_nccl *t, void *comm) { return t->ncclCommDestroy(comm); }
int ens_nccl_abort(const ens_nccl *t, void *comm) { return t->ncclCommAbort(comm); }
int ens_nccl_async(const ens_nccl *t, void *comm, int *state) { return t->ncclCommGetAsyncError(comm, state); }
const char *ens_nccl_error(const ens_nccl *t, int status) { return t->ncclGetErrorString(status); }
const char *ens_nccl_last(const ens_nccl *t, void *comm) { return t->ncclGetLastError(comm); }
int ens_nccl_reduce(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream) {
	return t->ncclAllReduce(from, to, n, type, ncclSum, comm, stream);
}
int ens_nccl_scatter(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream) {
	return t->ncclReduceScatter(from, to, n, type, ncclSum, comm, stream);
}
int ens_nccl_gather(const ens_nccl *t, const void *from, void *to, size_t n, int type, void *comm, void *stream) {
	return t->ncclAllGather(from, to, n, type, comm, stream);
}
int ens_nccl_send(const ens_nccl *t, const void *from, size_t bytes, int rank, void *comm, void *stream) {
	return t->ncclSend(from, bytes, ncclUint8, rank, comm, stream);
}
int ens_nccl_recv(const ens_nccl *t, void *to, size_t bytes, int rank, void *comm, void *stream) {
	return t->ncclRecv(to, bytes, ncclUint8, rank, comm, stream);
}
int ens_nccl_begin(const ens_nccl *t) { return t->ncclGroupStart(); }
int ens_nccl_end(const ens_nccl *t) { return t->ncclGroupEnd(); }
