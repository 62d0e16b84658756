#include "common.cuh"
// Weights of layers from templates of a store, and the adjoints. A template is as large as
// the weights, or a plane of its own that is resized to that of the weights, bilinear
// between centres of cells.

enum { as_large, resized };

// Form of the templates: their kind, their values, and if they are resized their plane and
// that of the weights.
struct plane {
	int32_t kind, values, rows, columns, to_rows, to_columns;
};

// The two centres of n that centre i of an axis of length `to` lies between, and the share
// of the second.
struct pair {
	int32_t a, b;
	float share;
};

DEVICE pair between(int32_t i, int32_t n, int32_t to) {
	float at = (i + 0.5f) * n / to - 0.5f;
	if (at < 0)
		at = 0;
	pair p;
	p.a = static_cast<int32_t>(at);
	if (p.a > n - 1)
		p.a = n - 1;
	p.b = p.a + 1 < n ? p.a + 1 : n - 1;
	p.share = at - floorf(at);
	return p;
}

// What a template t is at weight i.
DEVICE float value_at(const float *t, int32_t i, plane g) {
	if (g.kind == as_large)
		return t[i];
	pair r = between(i / g.to_columns, g.rows, g.to_rows), c = between(i % g.to_columns, g.columns, g.to_columns);
	float upper = (1 - c.share) * t[r.a * g.columns + c.a] + c.share * t[r.a * g.columns + c.b];
	float lower = (1 - c.share) * t[r.b * g.columns + c.a] + c.share * t[r.b * g.columns + c.b];
	return (1 - r.share) * upper + r.share * lower;
}

KERNEL combine(const float *store, const float *coefficients, float *w, const int32_t *offsets, int32_t templates, int32_t n, int32_t kind, int32_t values,
		int32_t rows, int32_t columns, int32_t to_rows, int32_t to_columns) {
	int64_t i = thread_of_grid();
	if (i >= n)
		return;
	plane g = {kind, values, rows, columns, to_rows, to_columns};
	float sum = 0;
	for (int32_t k = 0; k < templates; k++)
		sum += coefficients[k] * value_at(store + offsets[k], static_cast<int32_t>(i), g);
	w[i] = sum;
}

// The centres of a longer axis that may lie near centre i of n: from lo up to hi.
DEVICE void near(int32_t i, int32_t n, int32_t to, int32_t *lo, int32_t *hi) {
	*lo = static_cast<int32_t>(floorf((i - 0.5f) * to / n - 0.5f));
	*hi = static_cast<int32_t>(ceilf((i + 1.5f) * to / n - 0.5f)) + 1;
	if (*lo < 0)
		*lo = 0;
	if (*hi > to)
		*hi = to;
}

DEVICE float weight_of(int32_t i, pair p) { return (p.a == i ? 1 - p.share : 0) + (p.b == i ? p.share : 0); }

// What all weights change by a value of a template.
DEVICE float adjoint_at(const float *dw, int32_t v, plane g) {
	if (g.kind == as_large)
		return dw[v];
	float sum = 0;
	int32_t row = v / g.columns, column = v % g.columns, lo, hi, left, right;
	near(row, g.rows, g.to_rows, &lo, &hi);
	near(column, g.columns, g.to_columns, &left, &right);
	for (int32_t r = lo; r < hi; r++) {
		float down = weight_of(row, between(r, g.rows, g.to_rows));
		if (down == 0)
			continue;
		for (int32_t c = left; c < right; c++) {
			float factor = down * weight_of(column, between(c, g.columns, g.to_columns));
			if (factor != 0)
				sum += factor * dw[static_cast<int64_t>(r) * g.to_columns + c];
		}
	}
	return sum;
}

KERNEL combine_grad_store(const float *coefficients, const float *dw, float *store, const int32_t *offsets, int32_t templates, int32_t n, int32_t kind,
		int32_t values, int32_t rows, int32_t columns, int32_t to_rows, int32_t to_columns, int32_t size) {
	int64_t s = thread_of_grid();
	if (s >= size)
		return;
	plane g = {kind, values, rows, columns, to_rows, to_columns};
	float sum = 0;
	for (int32_t k = 0; k < templates; k++) {
		int64_t v = s - offsets[k];
		if (v >= 0 && v < values)
			sum += coefficients[k] * adjoint_at(dw, static_cast<int32_t>(v), g);
	}
	store[s] = sum;
}

// Sums of dw·template over parts of the weights, [parts][templates]; grid: parts, templates.
KERNEL __launch_bounds__(256) combine_grad_coefficients(const float *store, const float *dw, float *parts, const int32_t *offsets, int32_t templates, int32_t n,
		int32_t kind, int32_t values, int32_t rows, int32_t columns, int32_t to_rows, int32_t to_columns, int32_t each) {
	__shared__ double all[256];
	plane g = {kind, values, rows, columns, to_rows, to_columns};
	const float *t = store + offsets[blockIdx.y];
	int64_t end = (blockIdx.x + 1) * static_cast<int64_t>(each);
	if (end > n)
		end = n;
	double sum = 0;
	for (int64_t i = static_cast<int64_t>(blockIdx.x) * each + threadIdx.x; i < end; i += blockDim.x)
		sum += static_cast<double>(dw[i]) * value_at(t, static_cast<int32_t>(i), g);
	all[threadIdx.x] = sum;
	for (int half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			all[threadIdx.x] += all[threadIdx.x + half];
	}
	if (threadIdx.x == 0)
		parts[static_cast<int64_t>(blockIdx.x) * templates + blockIdx.y] = static_cast<float>(all[0]);
}
