// How kernels walk over fields, either plain, [N C P] with P points, or with the channels
// last, [N P L] with L ≥ C lanes. A thread takes one value of a plain field at a time, and
// eight neighbouring lanes of one with LAST, which are one or two loads of 16 bytes. T is
// the type of values of fields.
#pragma once
#include "wide.cuh"

#ifdef LAST
constexpr int width = 8;
#else
constexpr int width = 1;
#endif

// The width values that a thread takes.
DEVICE void read(const T *p, float *v) {
#ifdef LAST
	load8(p, v);
#else
	v[0] = load(p);
#endif
}
DEVICE void write(T *p, const float *v) {
#ifdef LAST
	store8(p, v);
#else
	store(p, v[0]);
#endif
}

// A walk of a thread over points, always of the same channels: c and the following ones. With
// the channels last blocks of (columns of lanes)×(points) threads take `each` points of all
// samples; else those of one plane of points, [N C] of which lie behind each other.
struct walk {
	int c;
	int64_t count;       // of points
	int64_t point, step; // the first and their distance; of all samples, or of the plane
	int64_t plane;       // where that begins, 0 with the channels last
};

DEVICE walk begin_walk(int32_t channels, int32_t lanes, int64_t points, int32_t each) {
	walk w;
#ifdef LAST
	w.c = (blockIdx.y * blockDim.x + threadIdx.x) * width;
	w.point = static_cast<int64_t>(blockIdx.x) * each + threadIdx.y;
	w.step = blockDim.y;
	w.plane = 0;
	int64_t end = static_cast<int64_t>(blockIdx.x + 1) * each;
	if (w.c >= lanes)
		end = 0;
#else
	int32_t pieces = static_cast<int32_t>((points + each - 1) / each), piece;
	int64_t plane = divided(blockIdx.x, pieces, &piece);
	divided(plane, channels, &w.c);
	w.point = static_cast<int64_t>(piece) * each + threadIdx.x;
	w.step = blockDim.x;
	w.plane = plane * points;
	int64_t end = static_cast<int64_t>(piece + 1) * each;
#endif
	if (end > points)
		end = points;
	w.count = w.point < end ? (end - 1 - w.point) / w.step + 1 : 0;
	return w;
}

// The index of the first values of a walk, and their stride, in a field of the given lanes.
DEVICE int64_t first_of(walk w, int32_t lanes) {
#ifdef LAST
	return w.point * lanes + w.c;
#else
	return w.plane + w.point;
#endif
}
DEVICE int64_t step_of(walk w, int32_t lanes) {
#ifdef LAST
	return w.step * lanes;
#else
	return w.step;
#endif
}

// each_point gives f the values of a walk over x and the number of their point, in turns. Some
// are read at a time, before f changes any, so that reads do not wait for each other.
template <class F> DEVICE void each_point(const T *x, walk w, int32_t lanes, F f) {
	constexpr int many = 4;
	int64_t at = first_of(w, lanes), step = step_of(w, lanes), i = 0;
	for (; i + many <= w.count; i += many, at += many * step) {
		float v[many][width];
#pragma unroll
		for (int j = 0; j < many; j++)
			read(x + at + j * step, v[j]);
#pragma unroll
		for (int j = 0; j < many; j++)
			f(v[j], i + j);
	}
	for (; i < w.count; i++, at += step) {
		float v[width];
		read(x + at, v);
		f(v, i);
	}
}

// map_points writes f of the values of x to y; x and y may be the same memory.
template <class F> DEVICE void map_points(const T *x, T *y, walk w, int32_t lanes, F f) {
	int64_t at = first_of(w, lanes), step = step_of(w, lanes);
	each_point(x, w, lanes, [&](float *v, int64_t i) {
#pragma unroll
		for (int k = 0; k < width; k++)
			v[k] = f(v[k], k);
		write(y + at + i * step, v);
	});
}
