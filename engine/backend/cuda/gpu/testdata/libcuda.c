// A driver of a GPU that is not there, for tests: its memory is the host's, work is done
// when it is asked for, a recording is a list, and a kernel is a line "kernel NAME KINDS"
// of the image (librariestest rules it).
#include "../prototypes.h"
#include "fake.h"
#include <stdint.h>

struct CUctx_st { int references; };
// recorder: whose recording it is part of; unjoined: with work that nothing waits for
struct CUstream_st { CUstream recorder; int used, number, unjoined; struct work *first, *last; };
struct CUevent_st { double at; CUstream stream, recorder; };
struct CUmod_st { char *image; };
struct CUfunc_st { char name[64], kinds[64]; int shared; };
struct work { struct work *next; CUdeviceptr dst, src; size_t bytes; CUfunction function; unsigned long long values[64]; };
struct CUgraph_st { struct work *first; };
struct CUgraphExec_st { struct work *first; };

static struct CUctx_st primary;
static __thread CUcontext current;
static struct CUstream_st streams[64];
static int created; // streams since the context was retained
static int live_memory, live_host, live_modules, live_streams, live_events, live_graphs, live_execs;
static size_t used;
static double clock_ms;

#define IN_CONTEXT \
	do { \
		MAY_FAIL; \
		if (!current) return 201; \
	} while (0)

CUresult cuInit(unsigned int flags) { MAY_FAIL; return flags; }
CUresult cuDriverGetVersion(int *version) { MAY_FAIL; *version = value("version", 12040); return 0; }
CUresult cuGetErrorName(CUresult code, const char **text) {
	static char s[32];
	snprintf(s, sizeof s, "CUDA_ERROR_%d", code);
	*text = s;
	return 0;
}
CUresult cuGetErrorString(CUresult code, const char **text) { *text = "what it means"; return code == 0; }
CUresult cuDeviceGetCount(int *count) { MAY_FAIL; *count = value("count", 2); return 0; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { MAY_FAIL; *device = ordinal; return 0; }
CUresult cuDeviceGetName(char *name, int length, CUdevice device) { MAY_FAIL; snprintf(name, length, "Fake %d", device); return 0; }
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
	MAY_FAIL;
	(void)device;
	for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(0x11 * i);
	return 0;
}
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute attribute, CUdevice device) {
	MAY_FAIL;
	(void)device;
	switch (attribute) {
	case ENS_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = value("major", 9); return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 132; return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 227 << 10; return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *v = 2619000; return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *v = 5120; return 0;
	case ENS_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *v = value("unified", 1); return 0;
	}
	return 1;
}
static size_t total(void) { return value("memory", 1 << 20); }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { MAY_FAIL; (void)device; *bytes = total(); return 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
	MAY_FAIL;
	say("retain %d\n", device);
	primary.references++;
	created = 0;
	*context = &primary;
	return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
	say("release %d memory=%d host=%d modules=%d streams=%d events=%d graphs=%d execs=%d references=%d\n", device,
		live_memory, live_host, live_modules, live_streams, live_events, live_graphs, live_execs, --primary.references);
	MAY_FAIL;
	return 0;
}
CUresult cuCtxSetCurrent(CUcontext context) { MAY_FAIL; current = context; return 0; }
CUresult cuMemGetInfo_v2(size_t *free, size_t *all) { IN_CONTEXT; *all = total(); *free = total() - used; return 0; }

// The bytes of memory lie before it, and it is aligned as that of a GPU.
static void *take(size_t bytes) {
	char *p = aligned_alloc(256, (bytes + 511) / 256 * 256);
	memcpy(p, &bytes, sizeof bytes);
	return p + 256;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
	IN_CONTEXT;
	if (!bytes) return 1;
	if (bytes > total() - used) return ENS_CUDA_ERROR_OUT_OF_MEMORY;
	used += bytes;
	live_memory++;
	*p = (uintptr_t)take(bytes);
	return 0;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	IN_CONTEXT;
	char *base = (char *)(uintptr_t)p - 256;
	used -= *(size_t *)base;
	live_memory--;
	free(base);
	return 0;
}
CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags) {
	IN_CONTEXT;
	if (!bytes || flags != ENS_CU_MEMHOSTALLOC_PORTABLE) return 1;
	live_host++;
	*p = take(bytes);
	return 0;
}
CUresult cuMemFreeHost(void *p) {
	IN_CONTEXT;
	live_host--;
	free((char *)p - 256);
	return 0;
}

static void run(struct work *w) {
	clock_ms += 0.5;
	if (!w->function) {
		if (w->src) memmove((void *)(uintptr_t)w->dst, (void *)(uintptr_t)w->src, w->bytes);
		else memset((void *)(uintptr_t)w->dst, 0, w->bytes);
		return;
	}
	if (!strcmp(w->function->name, "fill")) { // p f l
		float v;
		memcpy(&v, &w->values[1], 4);
		for (size_t i = 0; i < w->values[2]; i++) ((float *)(uintptr_t)w->values[0])[i] = v;
	}
}
static void ask(CUstream stream, const struct work *w) {
	struct work *kept = malloc(sizeof *kept);
	*kept = *w;
	kept->next = 0;
	if (!stream->recorder) {
		run(kept);
		free(kept);
		return;
	}
	stream->unjoined = stream != stream->recorder;
	stream = stream->recorder;
	if (stream->last) stream->last->next = kept;
	else stream->first = kept;
	stream->last = kept;
}
static void forget(struct work *w) {
	while (w) {
		struct work *next = w->next;
		free(w);
		w = next;
	}
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
	IN_CONTEXT;
	say("copy in stream %d\n", stream->number);
	ask(stream, &(struct work){.dst = dst, .src = src, .bytes = bytes});
	return 0;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t bytes, CUstream stream) {
	IN_CONTEXT;
	if (v) return 1;
	ask(stream, &(struct work){.dst = p, .bytes = bytes});
	return 0;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n, CUjit_option *options, void **values) {
	if (n == 2 && options[0] == ENS_CU_JIT_ERROR_LOG_BUFFER && options[1] == ENS_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
		snprintf(values[0], (uintptr_t)values[1], "log of the driver");
	IN_CONTEXT;
	say("load %s%.*s\n", strncmp(image, "ptx", 3) ? "" : "ptx ", (int)strcspn(strstr(image, "--gpu"), "\n"), strstr(image, "--gpu"));
	*module = malloc(sizeof **module);
	(*module)->image = strdup(image);
	live_modules++;
	return 0;
}
CUresult cuModuleUnload(CUmodule module) {
	IN_CONTEXT;
	live_modules--;
	free(module->image);
	free(module);
	return 0;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
	IN_CONTEXT;
	struct CUfunc_st f = {.shared = 0};
	for (const char *s = module->image; s && (s = strstr(s, "kernel ")); s += 7)
		if (sscanf(s, "kernel %63s %63s", f.name, f.kinds) == 2 && !strcmp(f.name, name)) {
			*function = malloc(sizeof f); // as long as the process: the driver's live in their module
			**function = f;
			return 0;
		}
	return ENS_CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute attribute, CUfunction function) {
	IN_CONTEXT;
	(void)function;
	if (attribute == ENS_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) *v = value("threads", 1024);
	else if (attribute == ENS_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) *v = value("shared", 1024);
	else return 1;
	return 0;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int v) {
	IN_CONTEXT;
	if (attribute != ENS_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return 1;
	say("shared %s %d\n", function->name, v);
	function->shared = v;
	return 0;
}
#ifndef FAKE_OLD
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
	IN_CONTEXT;
	if (index >= strlen(function->kinds)) return 1;
	*offset = 8 * index;
	*size = strchr("plv", function->kinds[index]) ? 8 : 4;
	return 0;
}
#endif
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
	unsigned int shared, CUstream stream, void **arguments, void **extra) {
	IN_CONTEXT;
	if (extra) return 1;
	struct work w = {.function = f};
	char text[512] = "";
	for (int i = 0; f->kinds[i]; i++) {
		size_t bytes = strchr("plv", f->kinds[i]) ? 8 : 4;
		memcpy(&w.values[i], arguments[i], bytes);
		char *end = text + strlen(text);
		size_t room = sizeof text - strlen(text);
		switch (f->kinds[i]) {
		case 'p': snprintf(end, room, " p"); break;
		case 'i': snprintf(end, room, " %d", (int)w.values[i]); break;
		case 'l': snprintf(end, room, " %lld", (long long)w.values[i]); break;
		case 'u': snprintf(end, room, " %u", (unsigned)w.values[i]); break;
		case 'v': snprintf(end, room, " %llu", w.values[i]); break;
		case 'f': snprintf(end, room, " %g", *(float *)arguments[i]); break;
		}
	}
	say("launch %s %ux%ux%u of %ux%ux%u %u:%s\n", f->name, gx, gy, gz, bx, by, bz, shared, text);
	ask(stream, &w);
	return 0;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
	IN_CONTEXT;
	if (flags != ENS_CU_STREAM_NON_BLOCKING) return 1;
	for (int i = 0; i < 64; i++)
		if (!streams[i].used) {
			streams[i] = (struct CUstream_st){.used = 1, .number = created++};
			live_streams++;
			*stream = &streams[i];
			return 0;
		}
	return 2;
}
CUresult cuStreamDestroy_v2(CUstream stream) { IN_CONTEXT; live_streams--; stream->used = 0; return 0; }
CUresult cuStreamSynchronize(CUstream stream) { IN_CONTEXT; return stream->recorder ? 900 : 0; }
// A recording reaches the streams that wait for what it marked, until it ends; an event of
// another recording, or of none, may not be waited for in one.
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
	IN_CONTEXT;
	if (flags) return 1;
	if (stream->recorder && event->recorder != stream->recorder) return 905;
	if (event->recorder && !event->recorder->recorder) return 907;
	stream->recorder = event->recorder;
	if (event->stream != stream) event->stream->unjoined = 0;
	return 0;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
	IN_CONTEXT;
	if (stream->recorder || mode != ENS_CU_STREAM_CAPTURE_MODE_RELAXED) return 1;
	stream->recorder = stream;
	return 0;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
	*graph = 0;
	int unjoined = 0;
	for (int i = 0; i < 64; i++)
		if (streams[i].used && streams[i].recorder == stream) {
			unjoined |= streams[i].unjoined;
			streams[i].recorder = 0;
			streams[i].unjoined = 0;
		}
	struct work *first = stream->first;
	stream->first = stream->last = 0;
	if (unjoined) return 904;
	IN_CONTEXT;
	live_graphs++;
	*graph = malloc(sizeof **graph);
	(*graph)->first = first;
	return 0;
}
// The work passes to what runs it.
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
	IN_CONTEXT;
	if (flags) return 1;
	live_execs++;
	*exec = malloc(sizeof **exec);
	(*exec)->first = graph->first;
	graph->first = 0;
	return 0;
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) { IN_CONTEXT; (void)exec; (void)stream; return 0; }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
	IN_CONTEXT;
	for (struct work *w = exec->first; w; w = w->next) ask(stream, w);
	return 0;
}
CUresult cuGraphDestroy(CUgraph graph) { live_graphs--; forget(graph->first); free(graph); MAY_FAIL; return 0; }
CUresult cuGraphExecDestroy(CUgraphExec exec) { live_execs--; forget(exec->first); free(exec); MAY_FAIL; return 0; }

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
	IN_CONTEXT;
	if (flags && flags != ENS_CU_EVENT_DISABLE_TIMING) return 1;
	live_events++;
	*event = calloc(1, sizeof **event);
	return 0;
}
CUresult cuEventDestroy_v2(CUevent event) { IN_CONTEXT; live_events--; free(event); return 0; }
CUresult cuEventRecord(CUevent event, CUstream stream) { IN_CONTEXT; event->at = clock_ms; event->stream = stream; event->recorder = stream->recorder; return 0; }
CUresult cuEventSynchronize(CUevent event) { IN_CONTEXT; (void)event; return 0; }
#ifndef FAKE_OLD
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) { IN_CONTEXT; *milliseconds = (float)(end->at - start->at); return 0; }
#endif
