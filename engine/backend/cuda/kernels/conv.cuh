// What convolutions share: which point a tap reads, and the values of an output tile.

// axis is the geometry of a convolution along one axis, for a row j of the result and its
// v-th tap. Rows are from + step·i, so that the adjoint of a convolution with strides, whose
// taps depend on the place between them, is several calls with fewer taps each.
struct axis {
	int32_t size;                    // of the axis that is read
	int32_t from, step;              // of the rows
	int32_t first, each;             // of the taps: filter values first + each·(v/turns)
	int32_t stride, dilation, pad;
	int32_t period, turns;           // of a periodic axis, 0 otherwise; how often a tap can meet the same row, at most
};

// within is q modulo the period; q is at most a few periods outside.
DEVICE int32_t within(int32_t q, int32_t period) {
	while (q < 0)
		q += period;
	while (q >= period)
		q -= period;
	return q;
}

// source is the place that filter value t reads for row i, −1 for none:
// j·stride − pad + t·dilation.
DEVICE int32_t source(const axis &a, int32_t i, int32_t t) {
	int32_t q = (a.from + i * a.step) * a.stride - a.pad + t * a.dilation;
	if (a.period > 0)
		return within(q, a.period);
	return q >= 0 && q < a.size ? q : -1;
}

// reader is the adjoint: the place that reads row i with filter value t. The period is that
// of the row then; beyond one period there it may find several, in turns.
DEVICE int32_t reader(const axis &a, int32_t i, int32_t t, int32_t turn) {
	int32_t q = a.from + i * a.step + a.pad - t * a.dilation;
	if (a.period > 0) {
		q = within(q, a.period);
		for (; q / a.stride < a.size; q += a.period)
			if (q % a.stride == 0 && turn-- == 0)
				return q / a.stride;
		return -1;
	}
	if (a.stride > 1) {
		if (q < 0 || q % a.stride != 0)
			return -1;
		q /= a.stride;
	}
	return q >= 0 && q < a.size ? q : -1;
}

// AXIS are the parameters of an axis, and AXIS_OF makes a struct axis of them.
#define AXIS(n) int32_t n##size, int32_t n##from, int32_t n##step, int32_t n##first, int32_t n##each, int32_t n##stride, int32_t n##dilation, int32_t n##pad, int32_t n##period, int32_t n##turns
#define AXIS_OF(n) {n##size, n##from, n##step, n##first, n##each, n##stride, n##dilation, n##pad, n##period, n##turns}

// Units of values: eight of 16 bits, four floats.
constexpr int unit_values = 16 / sizeof(T);

// load4 reads four values.
DEVICE void load4(float r[4], const float *p) {
	float4 v = *reinterpret_cast<const float4 *>(p);
	r[0] = v.x, r[1] = v.y, r[2] = v.z, r[3] = v.w;
}
template <class N> DEVICE void load4(float r[4], const N *p) {
	uint2 v = *reinterpret_cast<const uint2 *>(p);
	unpack(p, v.x, r);
	unpack(p, v.y, r + 2);
}
DEVICE void store4(float *p, const float r[4]) { *reinterpret_cast<float4 *>(p) = make_float4(r[0], r[1], r[2], r[3]); }
template <class N> DEVICE void store4(N *p, const float r[4]) {
	uint2 v;
	v.x = pack(p, r);
	v.y = pack(p, r + 2);
	*reinterpret_cast<uint2 *>(p) = v;
}
