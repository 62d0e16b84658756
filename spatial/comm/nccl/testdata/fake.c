// Stands in for libnccl in tests: it writes what it is asked into the file FAKE_LOG.
// FAKE_FAIL="name k status" lets the k-th call of a function fail; a new value starts
// counting anew. FAKE_HANG="name" lets the calls of a function wait until the communicator
// is aborted. FAKE_ASYNC is the error of the work that was asked for.
#include "../api.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
	int rank, ranks;
	volatile int aborted;
} comm;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int live, ids, depth;

static void say(const char *format, ...) {
	char line[256];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return;
	fputs(line, f);
	fclose(f);
}
static int fails(const char *name) {
	static char seen[128];
	static int count;
	const char *want = getenv("FAKE_FAIL");
	if (!want) want = "";
	int k = 0, status = 0;
	pthread_mutex_lock(&lock);
	if (strcmp(want, seen)) {
		snprintf(seen, sizeof seen, "%s", want);
		count = 0;
	}
	size_t n = strlen(name);
	if (!strncmp(want, name, n) && want[n] == ' ' && sscanf(want + n, "%d %d", &k, &status) == 2 && ++count != k) status = 0;
	pthread_mutex_unlock(&lock);
	return status;
}
static int hangs(const char *name, comm *c) {
	const char *want = getenv("FAKE_HANG");
	if (!want || strcmp(want, name)) return 0;
	say("hang %d\n", c->rank);
	while (!c->aborted) usleep(1000);
	return 3;
}
#define INJECT(name)                           \
	do {                                   \
		int status = fails(#name);     \
		if (status) return status;     \
	} while (0)

ncclResult_t ncclGetVersion(int *v) {
	INJECT(ncclGetVersion);
	const char *other = getenv("FAKE_VERSION");
	*v = other && *other ? atoi(other) : 23203;
	return 0;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	INJECT(ncclGetUniqueId);
	pthread_mutex_lock(&lock);
	ids++;
	for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 7 + ids);
	pthread_mutex_unlock(&lock);
	return 0;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
	INJECT(ncclCommInitRank);
	for (int i = 1; i < 128; i++)
		if (id.internal[i] != (char)(i * 7 + id.internal[0])) return 4;
	comm *c = calloc(1, sizeof *c);
	c->rank = rank;
	c->ranks = ranks;
	__sync_fetch_and_add(&live, 1);
	say("init %d of %d id %d\n", rank, ranks, id.internal[0]);
	*out = c;
	return 0;
}
ncclResult_t ncclCommDestroy(ncclComm_t p) {
	__sync_fetch_and_add(&live, -1);
	say("destroy %d, live %d\n", ((comm *)p)->rank, live);
	free(p);
	INJECT(ncclCommDestroy);
	return 0;
}
ncclResult_t ncclCommAbort(ncclComm_t p) { // leaves the memory to calls that hang
	__sync_fetch_and_add(&live, -1);
	say("abort %d, live %d\n", ((comm *)p)->rank, live);
	((comm *)p)->aborted = 1;
	INJECT(ncclCommAbort);
	return 0;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t p, ncclResult_t *state) {
	INJECT(ncclCommGetAsyncError);
	const char *e = getenv("FAKE_ASYNC");
	*state = e ? atoi(e) : 0;
	return p == NULL;
}
const char *ncclGetErrorString(ncclResult_t s) { return s == 6 ? "remote process exited or there was a network error" : s == 3 ? "internal error" : "other error"; }
const char *ncclGetLastError(ncclComm_t p) { return p ? "peer 1 closed its socket" : ""; }

static int ask(const char *name, const void *from, void *to, size_t n, int type, int op, comm *c, void *stream) {
	say("%s %d: %zu of type %d op %d from %p to %p on %p%s\n", name, c->rank, n, type, op, from, to, stream, depth ? " in a group" : "");
	return hangs(name, c);
}
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	INJECT(ncclAllReduce);
	return ask("ncclAllReduce", from, to, n, t, op, c, s);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	INJECT(ncclReduceScatter);
	return ask("ncclReduceScatter", from, to, n, t, op, c, s);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
	INJECT(ncclAllGather);
	return ask("ncclAllGather", from, to, n, t, -1, c, s);
}
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t t, int to, ncclComm_t c, cudaStream_t s) {
	INJECT(ncclSend);
	return ask("ncclSend", from, NULL, n, t, to, c, s);
}
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t t, int from, ncclComm_t c, cudaStream_t s) {
	INJECT(ncclRecv);
	return ask("ncclRecv", NULL, to, n, t, from, c, s);
}
ncclResult_t ncclGroupStart(void) {
	INJECT(ncclGroupStart);
	say("begin %d\n", ++depth);
	return 0;
}
ncclResult_t ncclGroupEnd(void) {
	say("end %d\n", depth--);
	INJECT(ncclGroupEnd);
	return 0;
}
