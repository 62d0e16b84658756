// The calls of the driver as Go makes them: each makes the context current on the thread,
// and gives the driver's code, 0 for success.
#pragma once
#include "prototypes.h"
#include <stdint.h>

#define ENS_SIDE_STREAMS 3

typedef struct {
	ens_cuda cu;
	long id; // unique in the process; a context may get an address again
	CUdevice device;
	CUcontext context;
	CUstream stream, side[ENS_SIDE_STREAMS]; // main stream; streams of copies to the device, of copies from it, and of libraries
	CUevent begin, end, fork;
} ens_gpu;

typedef struct {
	ens_gpu *gpu;
	CUfunction function;
	unsigned size[6], shared;
	void **arguments;
} ens_call;

// ens_cuda_bind resolves all functions; the names of those that are missing are put into
// missing, and their number is given.
int ens_cuda_bind(ens_cuda *t, void *library, const char **missing, int max);

int ens_cuda_init(ens_cuda *t, int *count);
int ens_cuda_version(ens_cuda *t, int *version);
const char *ens_cuda_name(ens_cuda *t, int code);
const char *ens_cuda_text(ens_cuda *t, int code);

// ens_gpu_open opens what g->cu is bound for; *what names the call that failed.
int ens_gpu_open(ens_gpu *g, int index, const char **what);
int ens_gpu_close(ens_gpu *g, const char **what);
int ens_gpu_name(ens_gpu *g, char *name, int length);
int ens_gpu_uuid(ens_gpu *g, unsigned char *bytes); // 16
int ens_gpu_attribute(ens_gpu *g, int attribute, int *value);
int ens_gpu_total(ens_gpu *g, size_t *bytes);
int ens_gpu_enter(ens_gpu *g); // makes the context current on this thread
int ens_gpu_memory(ens_gpu *g, size_t *free, size_t *total);
int ens_gpu_alloc(ens_gpu *g, size_t bytes, void **p);
int ens_gpu_free(ens_gpu *g, void *p);
int ens_gpu_alloc_host(ens_gpu *g, size_t bytes, void **p);
int ens_gpu_free_host(ens_gpu *g, void *p);
int ens_gpu_copy(ens_gpu *g, void *dst, const void *src, size_t bytes);
// ens_gpu_copy_async copies in the stream of a direction, after all work so far if behind
// is 1; done marks its end.
int ens_gpu_copy_async(ens_gpu *g, void *dst, const void *src, size_t bytes, int from, int behind, CUevent done);
int ens_gpu_join(ens_gpu *g, CUevent done);
// ens_gpu_fork makes the stream of libraries wait for all work so far; ens_gpu_mark makes
// done mark the end of the work in it.
int ens_gpu_fork(ens_gpu *g);
int ens_gpu_mark(ens_gpu *g, CUevent done);
int ens_gpu_event(ens_gpu *g, CUevent *event);
int ens_gpu_event_forget(ens_gpu *g, CUevent event);
int ens_gpu_zero(ens_gpu *g, void *p, size_t bytes);
int ens_gpu_wait(ens_gpu *g);

int ens_gpu_load(ens_gpu *g, const void *image, char *log, unsigned log_bytes, CUmodule *module);
int ens_gpu_unload(ens_gpu *g, CUmodule module);
int ens_gpu_function(ens_gpu *g, CUmodule module, const char *name, CUfunction *f);
int ens_gpu_function_attribute(ens_gpu *g, CUfunction f, int attribute, int *value);
int ens_gpu_function_shared(ens_gpu *g, CUfunction f, int bytes);
// ens_gpu_parameters puts the sizes of the parameters of a kernel into sizes, and gives
// their number, -1 where the driver is too old to say.
int ens_gpu_parameters(ens_gpu *g, CUfunction f, size_t *sizes, int max);

ens_call *ens_call_new(ens_gpu *g, CUfunction f, const unsigned *size, unsigned shared, const unsigned long long *values, int n);
int ens_call_run(ens_call *c);

int ens_gpu_begin(ens_gpu *g);
// ens_gpu_end ends a recording; without keep nothing is left of it.
int ens_gpu_end(ens_gpu *g, int keep, CUgraphExec *exec, const char **what);
int ens_gpu_replay(ens_gpu *g, CUgraphExec exec);
int ens_gpu_forget(ens_gpu *g, CUgraphExec exec);

int ens_gpu_start_clock(ens_gpu *g);
int ens_gpu_stop_clock(ens_gpu *g, float *milliseconds);
