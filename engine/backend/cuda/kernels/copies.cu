#include "common.cuh"
// Copies of boxes: of parts of values, from one order of axes to another. U is the type of
// the unit of a thread, as wide as sizes and addresses permit.

struct __align__(16) words4 {
	uint32_t w[4];
};

// The coordinate along the innermost axis of those left in i.
DEVICE int32_t coordinate(int64_t *i, int32_t size) {
	if (size == 1)
		return 0;
	int32_t rest;
	*i = divided(*i, size, &rest);
	return rest;
}

// A box of five axes, of n elements in all: the strides of axis k are xk and yk.
KERNEL copy_box(const U *x, U *y, int64_t n, int32_t n1, int32_t n2, int32_t n3, int32_t n4, int64_t x0, int64_t x1, int64_t x2, int64_t x3, int64_t x4,
		int64_t y0, int64_t y1, int64_t y2, int64_t y3, int64_t y4) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t i = t;
		int32_t i4 = coordinate(&i, n4), i3 = coordinate(&i, n3), i2 = coordinate(&i, n2), i1 = coordinate(&i, n1);
		y[i * y0 + i1 * y1 + i2 * y2 + i3 * y3 + i4 * y4] = x[i * x0 + i1 * x1 + i2 * x2 + i3 * x3 + i4 * x4];
	}
}

// Zeros in a box of five axes.
KERNEL clear_box(U *y, int64_t n, int32_t n1, int32_t n2, int32_t n3, int32_t n4, int64_t y0, int64_t y1, int64_t y2, int64_t y3, int64_t y4) {
	U zero = {};
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t i = t;
		int32_t i4 = coordinate(&i, n4), i3 = coordinate(&i, n3), i2 = coordinate(&i, n2), i1 = coordinate(&i, n1);
		y[i * y0 + i1 * y1 + i2 * y2 + i3 * y3 + i4 * y4] = zero;
	}
}

// x as the part lo ≤ i < hi of an axis of y, with zeros elsewhere; n elements of y, inner
// of them per index of the axis.
KERNEL embed(const U *x, U *y, int64_t n, int32_t inner, int32_t size, int32_t lo, int32_t hi) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t i = t;
		int32_t k = coordinate(&i, inner), a = coordinate(&i, size);
		U v = {};
		if (a >= lo && a < hi)
			v = x[(i * (hi - lo) + a - lo) * inner + k];
		y[t] = v;
	}
}

// Channels of a field with the channels last: lanes first to first + count of x become
// those from `to` on of the `room` lanes from `at` on of y; the others of these are zero.
KERNEL copy_lanes(const U *x, U *y, int64_t n, int32_t lanes_x, int32_t first, int32_t count, int32_t lanes_y, int32_t at, int32_t room, int32_t to) {
	for (int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
		int64_t point = t;
		int32_t lane = coordinate(&point, room);
		U v = {};
		if (lane >= to && lane < to + count)
			v = x[point * lanes_x + first + lane - to];
		y[point * lanes_y + at + lane] = v;
	}
}
