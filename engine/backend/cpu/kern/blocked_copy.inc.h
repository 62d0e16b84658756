// Between plain and blocked tensors, and channels from one blocked tensor to
// another (concatenation, slices).

typedef struct {
	void *blocked;
	float *plain;
	long c, s;          // channels and cells of the plain tensor
	long blocks, first; // blocks of the blocked one, and where the channels begin
} turn_job;

// Cells of one block that an item turns.
enum { TURN = 512 };

// turn_at finds an item: its plain rows, its blocked cells, its channels and cells.
INLINE void turn_at(const turn_job *j, long item, float **plain, void **blocked, long *lanes, long *cells, int b16) {
	long pieces = (j->s + TURN - 1) / TURN, mine = (j->c + CELL - 1) / CELL;
	long lo = item % pieces * TURN, b = item / pieces % mine, n = item / pieces / mine;
	*plain = j->plain + (n * j->c + b * CELL) * j->s + lo;
	*blocked = at(j->blocked, ((n * j->blocks + j->first + b) * j->s + lo) * CELL, b16);
	*lanes = MIN(CELL, j->c - b * CELL);
	*cells = MIN(TURN, j->s - lo);
}

INLINE void block_item(const turn_job *j, long item, const int b16) {
	float *x;
	void *y;
	long lanes, cells, i = 0;
	turn_at(j, item, &x, &y, &lanes, &cells, b16);
	for (; i + VL <= cells; i += VL)
		for (long q = 0; q < CELL; q += VL) {
			vec r[VL];
			if (q + VL <= lanes)
				UNROLL for (long k = 0; k < VL; k++) r[k] = load(x + (q + k) * j->s + i);
			else
				UNROLL for (long k = 0; k < VL; k++) r[k] = q + k < lanes ? load(x + (q + k) * j->s + i) : (vec){0};
			transpose(r);
			UNROLL for (long k = 0; k < VL; k++) put_vec(y, (i + k) * CELL + q, r[k], b16);
		}
	for (; i < cells; i++)
		for (long k = 0; k < CELL; k++) put(y, i * CELL + k, k < lanes ? x[k * j->s + i] : 0, b16);
}
STORED(block_item)

INLINE void unblock_item(const turn_job *j, long item, const int b16) {
	float *y;
	void *x;
	long lanes, cells, i = 0;
	turn_at(j, item, &y, &x, &lanes, &cells, b16);
	for (; i + VL <= cells; i += VL)
		for (long q = 0; q < lanes; q += VL) {
			vec r[VL];
			UNROLL for (long k = 0; k < VL; k++) r[k] = get_vec(x, (i + k) * CELL + q, b16);
			transpose(r);
			UNROLL for (long k = 0; k < VL; k++)
				if (q + k < lanes) store(y + (q + k) * j->s + i, r[k]);
		}
	for (; i < cells; i++)
		for (long k = 0; k < lanes; k++) y[k * j->s + i] = get(x, i * CELL + k, b16);
}
STORED(unblock_item)

static long turn_items(const turn_job *j, long n) {
	return n * ((j->c + CELL - 1) / CELL) * ((j->s + TURN - 1) / TURN);
}

// The channels of x[n][c][s] as blocks first, first+1, ... of y[n][blocks][s][16].
static void k_blocked_from(ens_pool *p, int b16, void *y, const float *x, long n, long c, long s, long blocks, long first) {
	turn_job j = {y, (float *)x, c, s, blocks, first};
	ens_parallel(n * c * s < CHUNK ? 0 : p, PICK(block_item, b16), &j, turn_items(&j, n));
}

// The other way; what lies beyond channel c is not read.
static void k_blocked_to(ens_pool *p, int b16, float *y, const void *x, long n, long c, long s, long blocks, long first) {
	turn_job j = {(void *)x, y, c, s, blocks, first};
	ens_parallel(n * c * s < CHUNK ? 0 : p, PICK(unblock_item, b16), &j, turn_items(&j, n));
}

typedef struct {
	void *y;
	const void *x;
	long n, c, s;          // batch, channels that move, cells
	long yc, xc;           // where they begin
	long yblocks, xblocks; // blocks of the tensors
	long clear;            // lanes of y from here on are padding
	int add;
} move_job;

static long move_first(const move_job *j) { return j->yc / CELL; }
static long move_blocks(const move_job *j) { return (j->yc + j->c + CELL - 1) / CELL - move_first(j); }

// Lane l of block b of y takes channel 16 b + l - yc + xc of x. These are the
// upper lanes of one block and the lower lanes of the next: seen from y, lanes
// [lo, cut) and [cut, hi). Both are read as whole cells that begin in the middle
// of one and end in the next, so that no lane changes its place in a register.
INLINE void move_cells(const move_job *j, void *y, const void *a, const void *b, long lo, long cut, long hi, long cells,
		const int b16) {
	const char *begin = j->x, *end = at(j->x, (j->n * j->xblocks * j->s - 1) * CELL, b16); // of cells to read
	ivec ma[CV], mb[CV]; // lanes of a and of b
	EACH_VEC(q) {
		ma[q] = mb[q] = (ivec){0};
		for (int k = 0; k < VL; k++) {
			long l = q * VL + k;
			if (l >= lo && l < cut) ma[q][k] = -1;
			if (l >= cut && l < hi) mb[q][k] = -1;
		}
	}
	for (long i = 0; i < cells; i++) {
		const char *pa = at(a, i * CELL, b16), *pb = at(b, i * CELL, b16);
		if (MIN(pa, pb) >= begin && MAX(pa, pb) <= end) {
			cell old = get_cell(y, i * CELL, b16), va = get_cell(pa, 0, b16), vb = get_cell(pb, 0, b16), new;
			EACH_VEC(q) {
				ivec part = ((ivec)va.v[q] & ma[q]) | ((ivec)vb.v[q] & mb[q]);
				if (j->add)
					new.v[q] = old.v[q] + (vec)part;
				else
					new.v[q] = (vec)(part | ((ivec)old.v[q] & ~(ma[q] | mb[q])));
			}
			if (j->add)
				put_cell(y, i * CELL, new, b16);
			else
				put_same(y, i * CELL, new, b16);
			continue;
		}
		for (long l = lo; l < hi; l++) { // the first and the last cell of x
			float v = get(l < cut ? pa : pb, l, b16);
			put(y, i * CELL + l, j->add ? get(y, i * CELL + l, b16) + v : v, b16);
		}
	}
}

// An item is a run of cells of the blocks of y that are touched.
INLINE void move_item(const move_job *j, long item, const int b16) {
	long mine = move_blocks(j), lo = item * SPREAD, end = MIN(lo + SPREAD, j->n * mine * j->s);
	while (lo < end) {
		long row = lo / j->s, cells = MIN(end, (row + 1) * j->s) - lo, n = row / mine, b = move_first(j) + row % mine;
		void *y = at(j->y, ((n * j->yblocks + b) * j->s + lo % j->s) * CELL, b16);
		long first = MAX(0, j->yc - b * CELL), last = MIN(CELL, j->yc + j->c - b * CELL);
		long c = b * CELL + j->xc - j->yc, r = ((c % CELL) + CELL) % CELL; // channel and lane of x under lane 0
		long cut = MIN(MAX(CELL - r, first), last);
		const void *x = at(j->x, ((n * j->xblocks + (c - r) / CELL) * j->s + lo % j->s) * CELL + r, b16);
		const void *next = at(x, (j->s - 1) * CELL, b16);
		if (first == 0 && last == CELL && r == 0 && !j->add)
			memcpy(y, x, cells * CELL * (b16 ? 2 : 4));
		else {
			move_cells(j, y, cut > first ? x : next, cut < last ? next : x, first, cut, last, cells, b16);
			for (long i = 0; i < cells; i++)
				for (long l = j->clear - b * CELL; l < CELL; l++) put(y, i * CELL + l, 0, b16);
		}
		lo += cells;
	}
}
STORED(move_item)

// Channels xc.. of x become (or, with add, are added to) channels yc.. of y, c of them.
// Where they reach the last of the ytotal channels of y its padding is cleared.
static void k_blocked_move(ens_pool *p, int b16, void *y, long ytotal, long yc, const void *x, long xtotal, long xc,
		long n, long c, long s, int add) {
	long yblocks = (ytotal + CELL - 1) / CELL, xblocks = (xtotal + CELL - 1) / CELL;
	move_job j = {y, x, n, c, s, yc, xc, yblocks, xblocks, yc + c == ytotal ? ytotal : yblocks * CELL, add};
	ens_parallel(p, PICK(move_item, b16), &j, spreads(n * move_blocks(&j) * s));
}
