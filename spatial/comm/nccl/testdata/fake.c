// A fake libnccl for tests (librariestest). FAKE_HANG="name" makes the calls of a function wait until the communicator
// is aborted. The value "async" is the asynchronous error of the communicator.
#include "../api.h"
#include "fake.h"
#include <unistd.h>

typedef struct {
	int rank, ranks;
	volatile int aborted;
} comm;

static pthread_mutex_t numbering = PTHREAD_MUTEX_INITIALIZER;
static int live, ids, depth;

static int hangs(const char *name, comm *c) {
	const char *want = getenv("FAKE_HANG");
	if (!want || strcmp(want, name)) return 0;
	say("hang %d\n", c->rank);
	while (!c->aborted) usleep(1000);
	return 3;
}

ncclResult_t ncclGetVersion(int *v) {
	MAY_FAIL;
	*v = (int)value("version", 23203);
	return 0;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	MAY_FAIL;
	pthread_mutex_lock(&numbering);
	ids++;
	for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 7 + ids);
	pthread_mutex_unlock(&numbering);
	return 0;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
	MAY_FAIL;
	for (int i = 1; i < 128; i++)
		if (id.internal[i] != (char)(i * 7 + id.internal[0])) return 4;
	comm *c = calloc(1, sizeof *c);
	c->rank = rank;
	c->ranks = ranks;
	if (hangs("ncclCommInitRank", c)) return 3;
	__sync_fetch_and_add(&live, 1);
	say("init %d of %d id %d\n", rank, ranks, id.internal[0]);
	*out = c;
	return 0;
}
ncclResult_t ncclCommDestroy(ncclComm_t p) {
	__sync_fetch_and_add(&live, -1);
	say("destroy %d, live %d\n", ((comm *)p)->rank, live);
	free(p);
	MAY_FAIL;
	return 0;
}
ncclResult_t ncclCommAbort(ncclComm_t p) { // does not free the memory, which hanging calls use
	__sync_fetch_and_add(&live, -1);
	say("abort %d, live %d\n", ((comm *)p)->rank, live);
	((comm *)p)->aborted = 1;
	MAY_FAIL;
	return 0;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t p, ncclResult_t *state) {
	MAY_FAIL;
	*state = (ncclResult_t)value("async", 0);
	return p == NULL;
}
const char *ncclGetErrorString(ncclResult_t s) { return s == 6 ? "remote process exited or there was a network error" : s == 3 ? "internal error" : "other error"; }
const char *ncclGetLastError(ncclComm_t p) { return p ? "peer 1 closed its socket" : ""; }

static int ask(const char *name, const void *from, void *to, size_t n, int type, int op, comm *c, void *stream) {
	say("%s %d: %zu of type %d op %d from %p to %p on %p%s\n", name, c->rank, n, type, op, from, to, stream, depth ? " in a group" : "");
	return hangs(name, c);
}
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	MAY_FAIL;
	return ask("ncclAllReduce", from, to, n, t, op, c, s);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	MAY_FAIL;
	return ask("ncclReduceScatter", from, to, n, t, op, c, s);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
	MAY_FAIL;
	return ask("ncclAllGather", from, to, n, t, -1, c, s);
}
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t t, int to, ncclComm_t c, cudaStream_t s) {
	MAY_FAIL;
	return ask("ncclSend", from, NULL, n, t, to, c, s);
}
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t t, int from, ncclComm_t c, cudaStream_t s) {
	MAY_FAIL;
	return ask("ncclRecv", NULL, to, n, t, from, c, s);
}
ncclResult_t ncclGroupStart(void) {
	MAY_FAIL;
	say("begin %d\n", ++depth);
	return 0;
}
ncclResult_t ncclGroupEnd(void) {
	say("end %d\n", depth--);
	MAY_FAIL;
	return 0;
}
