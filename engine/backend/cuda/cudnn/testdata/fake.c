// Stands in for libcudnn in tests (librariestest): it keeps descriptors and knows five engines. The value
// "no_fusion" refuses graphs of several operations, as cuDNN does for those that no engine can fuse.
#include "../api.h"
#include <stdlib.h>

typedef struct {
	int id, kind, final, operations;
	int64_t engine, knob; // number of an engine and of its descriptors
} descriptor;

static struct {
	int64_t engine;
	int mode, fused; // in which mode it is named, for which graphs
	int note;        // -1 for none
	int64_t workspace;
	int knobs[2][2];
	int n;
} engines[] = {
	{3, CUDNN_HEUR_MODE_A, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 4096, {{14, 2}, {2, 7}}, 2},
	{5, CUDNN_HEUR_MODE_A, 0, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 0, {{0}}, 0},
	{7, CUDNN_HEUR_MODE_A, 0, -1, 1 << 20, {{0}}, 0},
	{3, CUDNN_HEUR_MODE_FALLBACK, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 4096, {{14, 2}, {2, 7}}, 2},
	{9, CUDNN_HEUR_MODE_FALLBACK, 0, -1, 0, {{0}}, 0}, // its plans are not supported
	{0, CUDNN_HEUR_MODE_FALLBACK, 0, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, 0, {{0}}, 0},
	{4, CUDNN_HEUR_MODE_A, 1, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0, {{24, 27}}, 1},
};
enum { ENGINES = sizeof engines / sizeof *engines };

static int live, made;
static char last[256];

#define REFUSED \
	snprintf(last, sizeof last, "injected into call %d", asked); \
	say("injected\n");
#include "fake.h"

size_t cudnnGetVersion(void) { return 92800; }
const char *cudnnGetErrorString(cudnnStatus_t s) { return s == 4000 ? "CUDNN_STATUS_INTERNAL_ERROR" : s / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM"; }
void cudnnGetLastErrorString(char *text, size_t room) { snprintf(text, room, "%s", last); last[0] = 0; }

static int context;
cudnnStatus_t cudnnCreate(cudnnHandle_t *h) {
	MAY_FAIL;
	*h = &context;
	return 0;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s) {
	MAY_FAIL;
	say("stream %p\n", s);
	return h != &context;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
	MAY_FAIL;
	say("live %d\n", live);
	return h != &context;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *d) {
	MAY_FAIL;
	descriptor *x = calloc(1, sizeof *x);
	x->id = made++;
	x->kind = kind;
	x->engine = x->knob = -1;
	live++;
	say("create %d kind %d\n", x->id, kind);
	*d = x;
	return 0;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
	live--;
	say("destroy %d\n", ((descriptor *)d)->id);
	free(d);
	MAY_FAIL;
	return 0;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n, const void *v) {
	MAY_FAIL;
	descriptor *d = p, *const *refs = v;
	if (d->final) return 2004;
	say("set %d attribute %d type %d:", d->id, name, type);
	for (int64_t i = 0; i < n; i++) switch (type) {
		case CUDNN_TYPE_INT64: say(" %lld", (long long)((const int64_t *)v)[i]); break;
		case CUDNN_TYPE_FLOAT: say(" %g", ((const float *)v)[i]); break;
		case CUDNN_TYPE_BOOLEAN: say(" %d", ((const char *)v)[i]); break;
		case CUDNN_TYPE_CHAR: say("%c", ((const char *)v)[i]); break;
		case CUDNN_TYPE_HANDLE: say(" %s", ((void *const *)v)[i] == &context ? "handle" : "?"); break;
		case CUDNN_TYPE_VOID_PTR: say(" %p", ((void *const *)v)[i]); break;
		case CUDNN_TYPE_BACKEND_DESCRIPTOR: say(" #%d%s", refs[i]->id, refs[i]->final ? "" : "?"); break;
		default: say(" %d", ((const int32_t *)v)[i]);
		}
	say("\n");
	switch (name) {
	case CUDNN_ATTR_OPERATIONGRAPH_OPS: d->operations = (int)n; break;
	case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
	case CUDNN_ATTR_ENGINE_OPERATION_GRAPH: d->operations = refs[0]->operations; break;
	case CUDNN_ATTR_ENGINEHEUR_MODE: d->knob = *(const int32_t *)v; break;
	case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: d->engine = *(const int64_t *)v; break;
	case CUDNN_ATTR_ENGINECFG_ENGINE:
	case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG: d->engine = refs[0]->engine; break;
	case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: // "plan 4"
		if (n < 6 || memcmp(v, "plan ", 5)) {
			snprintf(last, sizeof last, "no text of a plan");
			return 2000;
		}
		d->engine = ((const char *)v)[5] - '0';
		break;
	}
	return 0;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p) {
	MAY_FAIL;
	descriptor *d = p;
	if (d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && d->operations > 1 && value("no_fusion", 0)) return 3001;
	if (d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && d->knob == CUDNN_HEUR_MODE_B) return 3002;
	if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && d->engine == 9) {
		snprintf(last, sizeof last, "no such tile");
		return 3000;
	}
	d->final = 1;
	say("finalize %d\n", d->id);
	return 0;
}

static int at(int64_t engine) {
	for (int i = 0; i < ENGINES; i++)
		if (engines[i].engine == engine) return i;
	return -1;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *v) {
	MAY_FAIL;
	descriptor *d = p, **refs = v;
	int e = at(d->engine), k = 0;
	*n = 1;
	switch (name) {
	case CUDNN_ATTR_ENGINEHEUR_RESULTS:
		for (int i = 0; i < ENGINES; i++)
			if (engines[i].mode == d->knob && engines[i].fused == (d->operations > 1)) {
				if (k < room) refs[k]->engine = engines[i].engine;
				k++;
			}
		*n = k;
		return type != CUDNN_TYPE_BACKEND_DESCRIPTOR;
	case CUDNN_ATTR_ENGINECFG_ENGINE: refs[0]->engine = d->engine; return type != CUDNN_TYPE_BACKEND_DESCRIPTOR;
	case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
		for (*n = engines[e].n; k < *n; k++) {
			refs[k]->engine = d->engine;
			refs[k]->knob = k;
		}
		return type != CUDNN_TYPE_BACKEND_DESCRIPTOR;
	case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE: *(int32_t *)v = engines[e].knobs[d->knob][0]; return type != CUDNN_TYPE_KNOB_TYPE;
	case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE: *(int64_t *)v = engines[e].knobs[d->knob][1]; return type != CUDNN_TYPE_INT64;
	case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: *(int64_t *)v = d->engine; return type != CUDNN_TYPE_INT64;
	case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
		if (engines[e].note < 0) *n = 0;
		else *(int32_t *)v = engines[e].note;
		return type != CUDNN_TYPE_NUMERICAL_NOTE;
	case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
		if (!engines[e].fused) *n = 0;
		else *(int32_t *)v = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
		return type != CUDNN_TYPE_BEHAVIOR_NOTE;
	case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
		*n = 6;
		if (room >= 6) memcpy(v, "plan ", 5), ((char *)v)[5] = (char)('0' + d->engine);
		return !d->final || type != CUDNN_TYPE_CHAR;
	case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: *(int64_t *)v = engines[e].workspace; return !d->final || type != CUDNN_TYPE_INT64;
	}
	return 2005;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
	MAY_FAIL;
	descriptor *a = plan, *b = pack;
	say("execute engine %d pack %d\n", (int)a->engine, b->id);
	return h != &context || !a->final || !b->final;
}
