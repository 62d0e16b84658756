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
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// How often a thread looks again before it sleeps: about 10 µs, or 100 if all threads had a core to themselves of late.
// To wake a thread takes 35 to 50 µs on a virtual machine, of which the caller loses 15, and a job of a small field not
// much more. Longer spins take the core from a neighbour on a shared machine; none at all costs a
// wake-up per kernel (docs/decisions/0002-kernel-threads.md).
enum { SPINS = 300, PATIENT = 3000 };

// The number of active threads is adapted after jobs of this time, in ns. After a
// reduction all threads are active again after a rest, which doubles as long as the
// cause lasts.
enum { WINDOW = 30000000, REST = 50000000, LONGEST = 800000000 };

static _Thread_local long number;
long ens_thread(void) { return number; }

// spell is the time that one thread spent on items since the last adaptation, in ns.
typedef struct {
	_Alignas(64) _Atomic uint64_t wall, processor;
} spell;

// share are the items of a job that one thread takes first: in each job the same part of them, since consecutive jobs mostly
// read and write the same part of fields, which then still lies in the thread's cache. Then it takes those of others.
typedef struct {
	// One word holds the job's number (high half) and the share's next free item (low half), so that a worker that wakes
	// late can never take an item of a job it did not read: its compare-and-swap fails.
	_Alignas(64) _Atomic uint64_t ticket;
	_Atomic uint32_t end;
} share;

typedef struct {
	ens_pool *pool;
	long number;
} worker;

struct ens_pool {
	uint64_t number;         // of the job
	_Atomic(ens_item) fn;
	_Atomic(void *) job;
	_Atomic uint32_t shares; // of the job
	_Atomic uint32_t left;   // items not finished; the caller sleeps on it
	_Atomic uint32_t bell;   // rings once per job; workers sleep on it
	_Atomic int sleepers;    // workers asleep or about to be
	_Atomic int quit;
	_Atomic int seats;       // workers that the present job still admits
	int workers;
	int active;           // threads that share a job, including the caller
	_Atomic int spins;    // before a thread sleeps
	uint64_t jobs;        // ns spent in jobs since the last adaptation
	uint64_t rest, whole; // duration and end of a reduction, in ns
	share *share;         // one per thread
	spell *spell;         // one per thread
	worker *worker;       // one per worker
	pthread_t *thread;    // one per worker
};

static uint64_t now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

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

// take runs items of the present job until none is free; it returns how many.
static long take(ens_pool *p) {
	long done = 0;
	const uint32_t shares = atomic_load(&p->shares);
	for (uint32_t k = 0; k < shares;) {
		share *s = &p->share[(number + k) % shares];
		uint64_t t = atomic_load(&s->ticket);
		uint32_t item = (uint32_t)t;
		ens_item fn = atomic_load(&p->fn);
		void *job = atomic_load(&p->job);
		if (item >= atomic_load(&s->end)) {
			k++;
			continue;
		}
		if (!atomic_compare_exchange_weak(&s->ticket, &t, t + 1)) continue;
		fn(job, item);
		done++;
		if (atomic_fetch_sub(&p->left, 1) == 1) futex_wake(&p->left, 1);
	}
	return done;
}

// publish makes n items the present job, in shares of equal length.
static void publish(ens_pool *p, ens_item fn, void *job, uint32_t n, uint32_t shares) {
	// Close the tickets, so that no worker can take an item while the fields
	// change; then give out the first item of each share.
	p->number++;
	for (uint32_t i = 0, old = atomic_load(&p->shares); i < old; i++) atomic_store(&p->share[i].ticket, p->number << 32 | UINT32_MAX);
	atomic_store(&p->fn, fn);
	atomic_store(&p->job, job);
	atomic_store(&p->left, n);
	atomic_store(&p->shares, shares);
	p->number++;
	for (uint64_t i = 0; i < shares; i++) {
		atomic_store(&p->share[i].end, (uint32_t)((i + 1) * n / shares));
		atomic_store(&p->share[i].ticket, p->number << 32 | i * n / shares);
	}
}

// timed takes, and notes what it cost this thread.
static void timed(ens_pool *p) {
	uint64_t wall = now(CLOCK_MONOTONIC), processor = now(CLOCK_THREAD_CPUTIME_ID);
	if (take(p) == 0) return;
	spell *s = &p->spell[number];
	atomic_fetch_add(&s->processor, now(CLOCK_THREAD_CPUTIME_ID) - processor);
	atomic_fetch_add(&s->wall, now(CLOCK_MONOTONIC) - wall);
}

// Threads share memory and caches too: what a job takes on more threads is at
// best a few per cent more processor time.
static const double sharing = 1.15;

int ens_pool_active(int active, double running, double together) {
	int fewer = (int)(running + 0.2);
	if (fewer < 1) fewer = 1;
	return fewer < active && together < sharing * fewer ? fewer : active;
}

int ens_pool_spins(int active, double running) { return running > active - 0.1 ? PATIENT : SPINS; }

// reset begins a new window, and returns what the last one held: the threads
// that ran while they had items, and their processor time in ns.
static void reset(ens_pool *p, double *running, double *processor) {
	*running = *processor = 0;
	for (int i = 0; i <= p->workers; i++) {
		uint64_t w = atomic_exchange(&p->spell[i].wall, 0), c = atomic_exchange(&p->spell[i].processor, 0);
		if (w) *running += (double)c / w;
		*processor += c;
	}
	p->jobs = 0;
}

// adapt sets the number of active threads after a job of the given time.
static void adapt(ens_pool *p, uint64_t took) {
	p->jobs += took;
	if (p->jobs < WINDOW) return;
	uint64_t jobs = p->jobs;
	double running, processor;
	reset(p, &running, &processor);
	atomic_store(&p->spins, ens_pool_spins(p->active, running));
	int active = ens_pool_active(p->active, running, processor / jobs);
	if (active < p->active) {
		p->active = active;
		p->whole = now(CLOCK_MONOTONIC) + p->rest;
		p->rest = p->rest < LONGEST / 2 ? 2 * p->rest : LONGEST;
	} else if (active > p->workers) {
		p->rest = REST;
	}
}

static void *work(void *arg) {
	const worker *self = arg;
	ens_pool *p = self->pool;
	number = self->number;
	uint32_t seen = 0;
	for (;;) {
		uint32_t rung = atomic_load(&p->bell);
		for (int i = 0, spins = atomic_load(&p->spins); rung == seen && i < spins; i++) {
			relax();
			rung = atomic_load(&p->bell);
		}
		if (rung == seen) {
			atomic_fetch_add(&p->sleepers, 1);
			while ((rung = atomic_load(&p->bell)) == seen) futex_wait(&p->bell, seen);
			atomic_fetch_sub(&p->sleepers, 1);
		}
		seen = rung;
		if (atomic_load(&p->quit)) return 0;
		if (atomic_fetch_sub(&p->seats, 1) > 0) timed(p);
	}
}

static void release(ens_pool *p) {
	free(p->share);
	free(p->spell);
	free(p->worker);
	free(p->thread);
	free(p);
}

ens_pool *ens_pool_new(int threads) {
	if (threads < 1) threads = 1;
	ens_pool *p = calloc(1, sizeof *p);
	if (!p) return 0;
	p->rest = REST;
	p->spins = SPINS;
	p->share = aligned_alloc(64, sizeof(share) * threads);
	p->spell = aligned_alloc(64, sizeof(spell) * threads);
	p->worker = calloc(threads, sizeof(worker));
	p->thread = calloc(threads, sizeof(pthread_t));
	if (!p->share || !p->spell || !p->worker || !p->thread) {
		release(p);
		return 0;
	}
	memset(p->share, 0, sizeof(share) * threads);
	memset(p->spell, 0, sizeof(spell) * threads);
	// Signals belong to the threads of Go.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < threads - 1; i++) {
		p->worker[p->workers] = (worker){p, p->workers + 1};
		if (pthread_create(&p->thread[p->workers], 0, work, &p->worker[p->workers]) == 0) p->workers++;
	}
	pthread_sigmask(SIG_SETMASK, &old, 0);
	p->active = p->workers + 1;
	return p;
}

int ens_pool_threads(const ens_pool *p) { return p ? p->workers + 1 : 1; }

void ens_parallel(ens_pool *p, ens_item fn, void *job, long n) {
	if (!p || p->workers == 0 || n < 2) {
		for (long i = 0; i < n; i++) fn(job, i);
		return;
	}
	uint64_t start = now(CLOCK_MONOTONIC);
	if (p->active <= p->workers && start >= p->whole) {
		double running, processor;
		reset(p, &running, &processor);
		p->active = p->workers + 1;
	}
	if (p->active == 1) {
		for (long i = 0; i < n; i++) fn(job, i);
		return;
	}
	int helpers = n < p->active ? (int)n - 1 : p->active - 1;
	publish(p, fn, job, (uint32_t)n, helpers + 1);
	atomic_store(&p->seats, helpers);
	atomic_fetch_add(&p->bell, 1);
	if (atomic_load(&p->sleepers) > 0) futex_wake(&p->bell, helpers);
	timed(p);
	uint32_t left = atomic_load(&p->left);
	for (int i = 0, spins = atomic_load(&p->spins); left && i < spins; i++) {
		relax();
		left = atomic_load(&p->left);
	}
	while ((left = atomic_load(&p->left))) futex_wait(&p->left, left);
	adapt(p, now(CLOCK_MONOTONIC) - start);
}

void ens_pool_close(ens_pool *p) {
	if (!p) return;
	atomic_store(&p->quit, 1);
	atomic_fetch_add(&p->bell, 1);
	futex_wake(&p->bell, INT_MAX);
	for (int i = 0; i < p->workers; i++) pthread_join(p->thread[i], 0);
	release(p);
}
