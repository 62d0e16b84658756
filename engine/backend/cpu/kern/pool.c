//go:build cgo && linux

#define _GNU_SOURCE
#include "pool.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

// How often a thread looks again before it sleeps: about 10 µs. Longer spins
// take the core from a neighbour on a shared machine; none at all costs a
// wake-up per kernel (docs/decisions/0002-kernel-threads.md).
enum { SPINS = 300 };

static _Thread_local long number;
long ens_thread(void) { return number; }

typedef struct {
	ens_pool *pool;
	long number;
} worker;

struct ens_pool {
	// One word holds the job's number (high half) and its next free item (low
	// half), so that a worker that wakes late can never take an item of a job
	// it did not read: its compare-and-swap fails.
	_Atomic uint64_t ticket;
	_Atomic(ens_item) fn;
	_Atomic(void *) job;
	_Atomic uint32_t count;  // items of the job
	_Atomic uint32_t left;   // items not finished; the caller sleeps on it
	_Atomic uint32_t bell;   // rings once per job; workers sleep on it
	_Atomic int sleepers;    // workers asleep or about to be
	_Atomic int quit;
	int workers;
	worker *worker; // one per thread, behind the threads
	pthread_t thread[];
};

static void futex_wait(_Atomic uint32_t *a, uint32_t seen) {
	syscall(SYS_futex, a, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
}

static void futex_wake(_Atomic uint32_t *a, int n) {
	syscall(SYS_futex, a, FUTEX_WAKE_PRIVATE, n, 0, 0, 0);
}

static inline void relax(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

// take runs items of the present job until none is free.
static void take(ens_pool *p) {
	for (;;) {
		uint64_t t = atomic_load(&p->ticket);
		uint32_t item = (uint32_t)t;
		ens_item fn = atomic_load(&p->fn);
		void *job = atomic_load(&p->job);
		if (item >= atomic_load(&p->count)) return;
		if (!atomic_compare_exchange_weak(&p->ticket, &t, t + 1)) continue;
		fn(job, item);
		if (atomic_fetch_sub(&p->left, 1) == 1) futex_wake(&p->left, 1);
	}
}

static void *work(void *arg) {
	const worker *self = arg;
	ens_pool *p = self->pool;
	number = self->number;
	uint32_t seen = 0;
	for (;;) {
		uint32_t now = atomic_load(&p->bell);
		for (int i = 0; now == seen && i < SPINS; i++) {
			relax();
			now = atomic_load(&p->bell);
		}
		if (now == seen) {
			atomic_fetch_add(&p->sleepers, 1);
			while ((now = atomic_load(&p->bell)) == seen) futex_wait(&p->bell, seen);
			atomic_fetch_sub(&p->sleepers, 1);
		}
		seen = now;
		if (atomic_load(&p->quit)) return 0;
		take(p);
	}
}

ens_pool *ens_pool_new(int threads) {
	if (threads < 1) threads = 1;
	ens_pool *p = calloc(1, sizeof *p + (sizeof(pthread_t) + sizeof(worker)) * threads);
	if (!p) return 0;
	p->worker = (worker *)(p->thread + threads);
	// Signals belong to the threads of Go.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < threads - 1; i++) {
		p->worker[p->workers] = (worker){p, p->workers + 1};
		if (pthread_create(&p->thread[p->workers], 0, work, &p->worker[p->workers]) == 0) p->workers++;
	}
	pthread_sigmask(SIG_SETMASK, &old, 0);
	return p;
}

int ens_pool_threads(const ens_pool *p) { return p ? p->workers + 1 : 1; }

void ens_parallel(ens_pool *p, ens_item fn, void *job, long n) {
	if (!p || p->workers == 0 || n < 2) {
		for (long i = 0; i < n; i++) fn(job, i);
		return;
	}
	// Close the ticket, so that no worker can take an item while the fields
	// change; then publish the new number with item 0.
	uint64_t number = (atomic_load(&p->ticket) >> 32) + 1;
	atomic_store(&p->ticket, number << 32 | UINT32_MAX);
	atomic_store(&p->fn, fn);
	atomic_store(&p->job, job);
	atomic_store(&p->left, (uint32_t)n);
	atomic_store(&p->count, (uint32_t)n);
	atomic_store(&p->ticket, (number + 1) << 32);
	atomic_fetch_add(&p->bell, 1);
	if (atomic_load(&p->sleepers) > 0) futex_wake(&p->bell, n - 1 < p->workers ? (int)n - 1 : p->workers);
	take(p);
	uint32_t left = atomic_load(&p->left);
	for (int i = 0; left && i < SPINS; i++) {
		relax();
		left = atomic_load(&p->left);
	}
	while ((left = atomic_load(&p->left))) futex_wait(&p->left, left);
}

void ens_pool_close(ens_pool *p) {
	if (!p) return;
	atomic_store(&p->quit, 1);
	atomic_fetch_add(&p->bell, 1);
	futex_wake(&p->bell, INT_MAX);
	for (int i = 0; i < p->workers; i++) pthread_join(p->thread[i], 0);
	free(p);
}
