#include "common.cuh"
// Optimisers: sweeps over the pieces of flat parameters, a block for each. A piece is the
// elements lo to hi of one tensor, whose gradients and moments begin at `at`. With g' =
// factor·g, and decay and ratio those of the tensor:
//   sgd       d = g' + decay w      m = momentum m + d      w -= rate m
//   nesterov  d, m as sgd           w -= rate (d + momentum m)
//   adam      d = g' + decay w      m = b1 m + (1-b1) d      v = b2 v + (1-b2) d²
//             w -= rate (m/c1) / (√(v/c2) + eps)
//   adamw     w -= rate decay w first, then adam with d = g'
//   lars      m = momentum m + rate ratio (g' + decay w)      w -= m
//   lamb      m, v as adam with d = g'      u = (m/c1) / (√(v/c2) + eps) + decay w
//             w -= rate ratio u
// and last, where there is an average e, e += blend (w - e). Sources at optim.Kind. What
// differs from step to step is in device memory: constants in the order of `constant`, and what
// the device finds out, in that of `finding`. A step whose gradient is not finite changes
// nothing.

enum rule { sgd, nesterov, adam, adamw, lars, lamb };

enum constant { rate, beta1, beta2, rest1, rest2, eps, momentum, given_factor, blend, correct1, correct2, clip, trust };

enum finding { total_norm, factor, is_finite };

struct piece {
	int64_t lo, hi, at;
	int32_t tensor, unused;
};

// A tensor: its first piece, and how its weights decay; plain ones have no ratio.
struct tensor {
	int32_t first, plain;
	float decay;
};

// The sums of two values over the threads of a block; the first thread has the result.
DEVICE void leave(double a, double b, double *to) {
	__shared__ double all[2][256];
	int me = threadIdx.x;
	all[0][me] = a;
	all[1][me] = b;
	for (int half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (me < half) {
			all[0][me] += all[0][me + half];
			all[1][me] += all[1][me + half];
		}
	}
	if (me == 0) {
		to[0] = all[0][0];
		to[1] = all[1][0];
	}
}

// Σw² and Σg² of every piece; without w 0 for the first.
KERNEL __launch_bounds__(256) opt_squares(const piece *pieces, const float *w, const float *g, double *parts) {
	piece p = pieces[blockIdx.x];
	double a = 0, b = 0;
	for (int64_t i = threadIdx.x; i < p.hi - p.lo; i += blockDim.x) {
		double v = g[p.at + i], u = w ? w[p.lo + i] : 0;
		a += u * u;
		b += v * v;
	}
	leave(a, b, parts + 2 * static_cast<int64_t>(blockIdx.x));
}

// The sums of the pieces of each tensor, in their order.
KERNEL opt_join(const tensor *tensors, const double *parts, double *sums, int32_t count) {
	int64_t t = thread_of_grid();
	if (t >= count)
		return;
	double a = 0, b = 0;
	for (int32_t i = tensors[t].first; i < tensors[t + 1].first; i++) {
		a += parts[2 * static_cast<int64_t>(i)];
		b += parts[2 * static_cast<int64_t>(i) + 1];
	}
	sums[2 * t] = a;
	sums[2 * t + 1] = b;
}

// The norm of the gradient from the sums of all tensors, and what clipping leaves of it; one
// block.
KERNEL __launch_bounds__(256) opt_norm(const double *sums, const float *constants, float *found, int32_t count) {
	__shared__ double total[2];
	double s = 0;
	for (int32_t t = threadIdx.x; t < count; t += blockDim.x)
		s += sums[2 * static_cast<int64_t>(t) + 1];
	leave(s, 0, total);
	if (threadIdx.x > 0)
		return;
	double n = sqrt(total[0]) * constants[given_factor], f = constants[given_factor];
	if (constants[clip] > 0 && n + 1e-6 > constants[clip])
		f *= constants[clip] / (n + 1e-6);
	found[total_norm] = static_cast<float>(n);
	found[factor] = static_cast<float>(f);
	found[is_finite] = n - n == 0 ? 1.0f : 0.0f;
}

// The decay and the ratio of each tensor: of LARS from the norms of w and g, of LAMB from
// those of w and u, else as given and 1.
KERNEL opt_ratio(const tensor *tensors, const double *sums, const float *constants, const float *found, float *decay, float *ratio, int32_t count, int32_t rule) {
	int64_t t = thread_of_grid();
	if (t >= count)
		return;
	decay[t] = tensors[t].decay;
	ratio[t] = 1;
	if (tensors[t].plain || rule != lars && rule != lamb) {
		decay[t] = rule == lars ? 0 : decay[t];
		return;
	}
	double w = sqrt(sums[2 * t]), other = sqrt(sums[2 * t + 1]);
	if (rule == lamb) {
		if (w > 0 && other > 0)
			ratio[t] = static_cast<float>(w / other);
		return;
	}
	other *= found[factor];
	if (w > 0 && other > 0)
		ratio[t] = static_cast<float>(constants[trust] * w / (other + static_cast<double>(tensors[t].decay) * w));
	else
		decay[t] = 0;
}

// The step of Adam before its rate.
DEVICE float direction(float m, float v, const float *c) { return m / c[correct1] / (sqrtf(v / c[correct2]) + c[eps]); }

// The moments of LAMB, and the sums of w² and u² of every piece.
KERNEL __launch_bounds__(256) opt_moments(const piece *pieces, const tensor *tensors, const float *constants, const float *found, const float *w, float *m, float *v,
		const float *g, double *parts) {
	if (found[is_finite] == 0)
		return;
	piece p = pieces[blockIdx.x];
	float f = found[factor], decay = tensors[p.tensor].decay;
	double a = 0, b = 0;
	for (int64_t i = threadIdx.x; i < p.hi - p.lo; i += blockDim.x) {
		float d = f * g[p.at + i], x = w[p.lo + i];
		float m1 = constants[beta1] * m[p.at + i] + constants[rest1] * d, v1 = constants[beta2] * v[p.at + i] + constants[rest2] * d * d;
		m[p.at + i] = m1;
		v[p.at + i] = v1;
		double u = direction(m1, v1, constants) + decay * x;
		a += static_cast<double>(x) * x;
		b += u * u;
	}
	leave(a, b, parts + 2 * static_cast<int64_t>(blockIdx.x));
}

// One sweep of any rule, of LAMB after opt_moments. v and e may be none.
KERNEL __launch_bounds__(256) opt_move(const piece *pieces, const float *constants, const float *found, const float *decays, const float *ratios, float *w, float *m,
		float *v, float *e, const float *g, int32_t rule) {
	if (found[is_finite] == 0)
		return;
	piece p = pieces[blockIdx.x];
	const float *c = constants;
	float f = found[factor], decay = decays[p.tensor], scaled = c[rate] * ratios[p.tensor];
	for (int64_t i = threadIdx.x; i < p.hi - p.lo; i += blockDim.x) {
		float x = w[p.lo + i], m1 = m[p.at + i], d = f * g[p.at + i];
		switch (rule) {
		case sgd:
		case nesterov:
			d += decay * x;
			m1 = c[momentum] * m1 + d;
			x -= c[rate] * (rule == sgd ? m1 : d + c[momentum] * m1);
			break;
		case adam:
		case adamw: {
			if (rule == adam)
				d += decay * x;
			else
				x -= c[rate] * decay * x;
			float v1 = c[beta2] * v[p.at + i] + c[rest2] * d * d;
			m1 = c[beta1] * m1 + c[rest1] * d;
			v[p.at + i] = v1;
			x -= c[rate] * direction(m1, v1, c);
			break;
		}
		case lars:
			m1 = c[momentum] * m1 + scaled * (d + decay * x);
			x -= m1;
			break;
		case lamb:
			x -= scaled * (direction(m1, v[p.at + i], c) + decay * x);
			break;
		}
		m[p.at + i] = m1;
		w[p.lo + i] = x;
		if (e)
			e[p.lo + i] = c[blend] == 1 ? x : e[p.lo + i] + c[blend] * (x - e[p.lo + i]);
	}
}

// sum += weight·g; the weight is in device memory.
KERNEL opt_add(float *sum, const float *g, const float *weight, int64_t n) {
	for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
		sum[i] += *weight * g[i];
}

// Sets x, laid out as the moments, to 0 where keep, laid out as the parameters, is 0.
KERNEL __launch_bounds__(256) opt_mask(const piece *pieces, const uint8_t *keep, float *x) {
	piece p = pieces[blockIdx.x];
	for (int64_t i = threadIdx.x; i < p.hi - p.lo; i += blockDim.x)
		if (!keep[p.lo + i])
			x[p.at + i] = 0;
}
