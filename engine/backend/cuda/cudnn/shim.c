//go:build cgo && linux

#include "shim.h"

#define X(result, name, args) #name " "
const char *const ens_cudnn_names = CUDNN_FUNCTIONS(X);
#undef X

size_t ens_cudnn_version(const ens_cudnn *t) { return t->cudnnGetVersion(); }
const char *ens_cudnn_error(const ens_cudnn *t, int status) { return t->cudnnGetErrorString(status); }
void ens_cudnn_last_error(const ens_cudnn *t, char *text, size_t room) { t->cudnnGetLastErrorString(text, room); }
int ens_cudnn_create(const ens_cudnn *t, void **handle) { return t->cudnnCreate(handle); }
int ens_cudnn_destroy(const ens_cudnn *t, void *handle) { return t->cudnnDestroy(handle); }
int ens_cudnn_stream(const ens_cudnn *t, void *handle, void *stream) { return t->cudnnSetStream(handle, stream); }
int ens_cudnn_make(const ens_cudnn *t, int kind, void **d) { return t->cudnnBackendCreateDescriptor(kind, d); }
int ens_cudnn_drop(const ens_cudnn *t, void *d) { return t->cudnnBackendDestroyDescriptor(d); }
int ens_cudnn_finalize(const ens_cudnn *t, void *d) { return t->cudnnBackendFinalize(d); }
int ens_cudnn_set(const ens_cudnn *t, void *d, int name, int type, int64_t n, const void *values) {
	return t->cudnnBackendSetAttribute(d, name, type, n, values);
}
int ens_cudnn_get(const ens_cudnn *t, void *d, int name, int type, int64_t n, int64_t *got, void *values) {
	return t->cudnnBackendGetAttribute(d, name, type, n, got, values);
}
int ens_cudnn_execute(const ens_cudnn *t, void *handle, void *plan, void *pack) {
	return t->cudnnBackendExecute(handle, plan, pack);
}
