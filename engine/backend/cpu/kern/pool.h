// A small pool of threads that sleep when there is no work.
#ifndef ENS_POOL_H
#define ENS_POOL_H

typedef struct ens_pool ens_pool;
typedef void (*ens_item)(void *job, long item);

// Threads count the caller: n threads start n-1 workers. Null if out of memory.
ens_pool *ens_pool_new(int threads);
int ens_pool_threads(const ens_pool *p);
// The number of the calling thread in its pool, 0 for the caller of
// ens_parallel: for scratch memory only, never for results.
long ens_thread(void);
void ens_pool_close(ens_pool *p);

// Runs fn(job, i) for i in 0..n-1, each once, in any order and on any thread,
// and returns when all are done. What is computed must not depend on which
// thread takes an item. A null pool runs everything on the caller.
//
// If another process uses a core, a job waits for the thread that shares it, and takes
// longer than with the free cores alone. So after every 30 ms of work the pool compares
// its processor time with the wall-clock time, and uses fewer threads for 50 to 800 ms
// if these do more work.
void ens_parallel(ens_pool *p, ens_item fn, void *job, long n);

// The number of threads for the next jobs, at most active. running is the mean number
// of threads that ran while they had items; a thread that shares its core counts as
// its share. together is that mean over the whole time of the jobs, waiting included.
int ens_pool_active(int active, double running, double together);

// How often a thread looks for the next job before it sleeps: longer if all active threads ran while they had items, that is, had a
// core to themselves.
int ens_pool_spins(int active, double running);
#endif
