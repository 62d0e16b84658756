//go:build cgo && linux

#include "shim.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int ens_cuda_bind(ens_cuda *t, void *library, const char **missing, int max) {
	int n = 0;
#define BIND(name, parameters) \
	*(void **)&t->name = dlsym(library, #name); \
	if (!t->name && n < max) missing[n++] = #name;
	ENS_CUDA_FUNCTIONS(BIND)
#undef BIND
#define BIND(name, parameters) *(void **)&t->name = dlsym(library, #name);
	ENS_CUDA_OPTIONAL(BIND)
#undef BIND
	return n;
}

int ens_cuda_init(ens_cuda *t, int *count) {
	int rc = t->cuInit(0);
	return rc ? rc : (int)t->cuDeviceGetCount(count);
}

int ens_cuda_version(ens_cuda *t, int *version) { return t->cuDriverGetVersion(version); }

const char *ens_cuda_name(ens_cuda *t, int code) {
	const char *s = 0;
	return t->cuGetErrorName(code, &s) == 0 && s ? s : "";
}

const char *ens_cuda_text(ens_cuda *t, int code) {
	const char *s = 0;
	return t->cuGetErrorString(code, &s) == 0 && s ? s : "";
}

// The device whose context we made current on this thread. Go moves goroutines between
// threads unless they are locked, and one thread may use several devices.
static __thread long current;

static int enter(ens_gpu *g) {
	if (current == g->id) return 0;
	int rc = g->cu.cuCtxSetCurrent(g->context);
	if (rc == 0) current = g->id;
	return rc;
}

int ens_gpu_enter(ens_gpu *g) { return enter(g); }

#define ENTER(g) \
	do { \
		int rc = enter(g); \
		if (rc) return rc; \
	} while (0)

int ens_gpu_open(ens_gpu *g, int index, const char **what) {
	static long opened; // counted under the caller's lock
	g->id = ++opened;
	int rc;
#define TRY(call, name) \
	if ((rc = (call))) { \
		*what = name; \
		goto failed; \
	}
	TRY(g->cu.cuDeviceGet(&g->device, index), "cuDeviceGet")
	TRY(g->cu.cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain")
	TRY(enter(g), "cuCtxSetCurrent")
	TRY(g->cu.cuStreamCreate(&g->stream, ENS_CU_STREAM_NON_BLOCKING), "cuStreamCreate")
	for (int i = 0; i < ENS_SIDE_STREAMS; i++) TRY(g->cu.cuStreamCreate(&g->side[i], ENS_CU_STREAM_NON_BLOCKING), "cuStreamCreate")
	TRY(g->cu.cuEventCreate(&g->begin, 0), "cuEventCreate")
	TRY(g->cu.cuEventCreate(&g->end, 0), "cuEventCreate")
	TRY(g->cu.cuEventCreate(&g->fork, ENS_CU_EVENT_DISABLE_TIMING), "cuEventCreate")
#undef TRY
	return 0;
failed:;
	const char *ignored;
	ens_gpu_close(g, &ignored);
	return rc;
}

// ens_gpu_close goes on after an error and gives the first.
int ens_gpu_close(ens_gpu *g, const char **what) {
	int first = 0;
#define DO(call, name) \
	do { \
		int rc = (call); \
		if (rc && !first) { \
			first = rc; \
			*what = name; \
		} \
	} while (0)
	if (g->context) DO(enter(g), "cuCtxSetCurrent");
	if (g->fork) DO(g->cu.cuEventDestroy_v2(g->fork), "cuEventDestroy");
	if (g->end) DO(g->cu.cuEventDestroy_v2(g->end), "cuEventDestroy");
	if (g->begin) DO(g->cu.cuEventDestroy_v2(g->begin), "cuEventDestroy");
	for (int i = 0; i < ENS_SIDE_STREAMS; i++)
		if (g->side[i]) DO(g->cu.cuStreamDestroy_v2(g->side[i]), "cuStreamDestroy");
	if (g->stream) DO(g->cu.cuStreamDestroy_v2(g->stream), "cuStreamDestroy");
	if (g->context) {
		DO(g->cu.cuCtxSetCurrent(0), "cuCtxSetCurrent");
		current = 0;
		DO(g->cu.cuDevicePrimaryCtxRelease_v2(g->device), "cuDevicePrimaryCtxRelease");
	}
#undef DO
	g->end = g->begin = g->fork = 0;
	g->stream = 0;
	for (int i = 0; i < ENS_SIDE_STREAMS; i++) g->side[i] = 0;
	g->context = 0;
	return first;
}

int ens_gpu_name(ens_gpu *g, char *name, int length) { return g->cu.cuDeviceGetName(name, length, g->device); }
int ens_gpu_uuid(ens_gpu *g, unsigned char *bytes) {
	CUuuid id;
	int rc = g->cu.cuDeviceGetUuid_v2(&id, g->device);
	if (rc == 0) memcpy(bytes, id.bytes, 16);
	return rc;
}

int ens_gpu_attribute(ens_gpu *g, int attribute, int *value) { return g->cu.cuDeviceGetAttribute(value, attribute, g->device); }
int ens_gpu_total(ens_gpu *g, size_t *bytes) { return g->cu.cuDeviceTotalMem_v2(bytes, g->device); }

int ens_gpu_memory(ens_gpu *g, size_t *free, size_t *total) {
	ENTER(g);
	return g->cu.cuMemGetInfo_v2(free, total);
}

int ens_gpu_alloc(ens_gpu *g, size_t bytes, void **p) {
	ENTER(g);
	CUdeviceptr d = 0;
	int rc = g->cu.cuMemAlloc_v2(&d, bytes);
	*p = (void *)(uintptr_t)d;
	return rc;
}

int ens_gpu_free(ens_gpu *g, void *p) {
	ENTER(g);
	return g->cu.cuMemFree_v2((uintptr_t)p);
}

int ens_gpu_alloc_host(ens_gpu *g, size_t bytes, void **p) {
	ENTER(g);
	return g->cu.cuMemHostAlloc(p, bytes, ENS_CU_MEMHOSTALLOC_PORTABLE);
}

int ens_gpu_free_host(ens_gpu *g, void *p) {
	ENTER(g);
	return g->cu.cuMemFreeHost(p);
}

int ens_gpu_copy(ens_gpu *g, void *dst, const void *src, size_t bytes) {
	ENTER(g);
	return g->cu.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, bytes, g->stream);
}

int ens_gpu_zero(ens_gpu *g, void *p, size_t bytes) {
	ENTER(g);
	return g->cu.cuMemsetD8Async((uintptr_t)p, 0, bytes, g->stream);
}

// Work in other streams may depend on the main one, so the main one comes first.
int ens_gpu_wait(ens_gpu *g) {
	ENTER(g);
	int rc = g->cu.cuStreamSynchronize(g->stream);
	for (int i = 0; i < ENS_SIDE_STREAMS && rc == 0; i++) rc = g->cu.cuStreamSynchronize(g->side[i]);
	return rc;
}

// A stream that waits for an event waits for what it marks then, so that one event serves
// for all forks. While the stream of work is recorded, the wait makes the other part of the
// recording.
int ens_gpu_copy_async(ens_gpu *g, void *dst, const void *src, size_t bytes, int from, int behind, CUevent done) {
	ENTER(g);
	CUstream side = g->side[from];
	int rc = behind ? (int)g->cu.cuEventRecord(g->fork, g->stream) : 0;
	if (rc == 0 && behind) rc = g->cu.cuStreamWaitEvent(side, g->fork, 0);
	if (rc == 0) rc = g->cu.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, bytes, side);
	return rc ? rc : (int)g->cu.cuEventRecord(done, side);
}

int ens_gpu_join(ens_gpu *g, CUevent done) {
	ENTER(g);
	return g->cu.cuStreamWaitEvent(g->stream, done, 0);
}

int ens_gpu_fork(ens_gpu *g) {
	ENTER(g);
	int rc = g->cu.cuEventRecord(g->fork, g->stream);
	return rc ? rc : (int)g->cu.cuStreamWaitEvent(g->side[ENS_SIDE_STREAMS - 1], g->fork, 0);
}

int ens_gpu_mark(ens_gpu *g, CUevent done) {
	ENTER(g);
	return g->cu.cuEventRecord(done, g->side[ENS_SIDE_STREAMS - 1]);
}

int ens_gpu_event(ens_gpu *g, CUevent *event) {
	ENTER(g);
	return g->cu.cuEventCreate(event, ENS_CU_EVENT_DISABLE_TIMING);
}

int ens_gpu_event_forget(ens_gpu *g, CUevent event) {
	ENTER(g);
	return g->cu.cuEventDestroy_v2(event);
}

int ens_gpu_load(ens_gpu *g, const void *image, char *log, unsigned log_bytes, CUmodule *module) {
	ENTER(g);
	CUjit_option options[2] = {ENS_CU_JIT_ERROR_LOG_BUFFER, ENS_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[2] = {log, (void *)(uintptr_t)log_bytes};
	return g->cu.cuModuleLoadDataEx(module, image, 2, options, values);
}

int ens_gpu_unload(ens_gpu *g, CUmodule module) {
	ENTER(g);
	return g->cu.cuModuleUnload(module);
}

int ens_gpu_function(ens_gpu *g, CUmodule module, const char *name, CUfunction *f) {
	ENTER(g);
	return g->cu.cuModuleGetFunction(f, module, name);
}

int ens_gpu_function_attribute(ens_gpu *g, CUfunction f, int attribute, int *value) {
	ENTER(g);
	return g->cu.cuFuncGetAttribute(value, attribute, f);
}

int ens_gpu_function_shared(ens_gpu *g, CUfunction f, int bytes) {
	ENTER(g);
	return g->cu.cuFuncSetAttribute(f, ENS_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

int ens_gpu_parameters(ens_gpu *g, CUfunction f, size_t *sizes, int max) {
	if (!g->cu.cuFuncGetParamInfo || enter(g)) return -1;
	int n = 0;
	size_t offset;
	while (n < max && g->cu.cuFuncGetParamInfo(f, n, &offset, &sizes[n]) == 0) n++;
	return n;
}

// Arguments as the driver takes them: pointers to values, here of eight bytes each, of
// which a parameter of four bytes takes the first, on machines that begin with the lowest.
ens_call *ens_call_new(ens_gpu *g, CUfunction f, const unsigned *size, unsigned shared, const unsigned long long *values, int n) {
	ens_call *c = malloc(sizeof(ens_call) + n * (sizeof(void *) + 8));
	if (!c) return 0;
	c->gpu = g;
	c->function = f;
	memcpy(c->size, size, sizeof c->size);
	c->shared = shared;
	c->arguments = (void **)(c + 1);
	unsigned long long *v = (unsigned long long *)(c->arguments + n);
	for (int i = 0; i < n; i++) {
		v[i] = values[i];
		c->arguments[i] = &v[i];
	}
	return c;
}

int ens_call_run(ens_call *c) {
	ENTER(c->gpu);
	return c->gpu->cu.cuLaunchKernel(c->function, c->size[0], c->size[1], c->size[2], c->size[3], c->size[4], c->size[5],
		c->shared, c->gpu->stream, c->arguments, 0);
}

// Relaxed: libraries of the vendor load kernels and allocate when they are first used.
int ens_gpu_begin(ens_gpu *g) {
	ENTER(g);
	return g->cu.cuStreamBeginCapture_v2(g->stream, ENS_CU_STREAM_CAPTURE_MODE_RELAXED);
}

int ens_gpu_end(ens_gpu *g, int keep, CUgraphExec *exec, const char **what) {
	ENTER(g);
	CUgraph graph = 0;
	int rc = g->cu.cuStreamEndCapture(g->stream, &graph);
	*what = "cuStreamEndCapture";
	if (rc == 0 && keep) {
		rc = g->cu.cuGraphInstantiateWithFlags(exec, graph, 0);
		*what = "cuGraphInstantiate";
		if (rc == 0) {
			// The first replay is as fast as the others.
			rc = g->cu.cuGraphUpload(*exec, g->stream);
			*what = "cuGraphUpload";
			if (rc) {
				g->cu.cuGraphExecDestroy(*exec);
				*exec = 0;
			}
		}
	}
	if (graph) {
		int destroyed = g->cu.cuGraphDestroy(graph);
		if (rc == 0 && destroyed) {
			if (keep) g->cu.cuGraphExecDestroy(*exec);
			*exec = 0;
			rc = destroyed;
			*what = "cuGraphDestroy";
		}
	}
	return rc;
}

int ens_gpu_replay(ens_gpu *g, CUgraphExec exec) {
	ENTER(g);
	return g->cu.cuGraphLaunch(exec, g->stream);
}

int ens_gpu_forget(ens_gpu *g, CUgraphExec exec) {
	ENTER(g);
	return g->cu.cuGraphExecDestroy(exec);
}

int ens_gpu_start_clock(ens_gpu *g) {
	ENTER(g);
	return g->cu.cuEventRecord(g->begin, g->stream);
}

int ens_gpu_stop_clock(ens_gpu *g, float *milliseconds) {
	ENTER(g);
	int rc = g->cu.cuEventRecord(g->end, g->stream);
	if (rc == 0) rc = g->cu.cuEventSynchronize(g->end);
	return rc ? rc : (int)g->cu.cuEventElapsedTime(milliseconds, g->begin, g->end);
}
