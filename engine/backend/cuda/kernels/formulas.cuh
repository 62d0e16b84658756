// The scalar formulas of elementwise operations, f_ and the name of the operation, with
// its number p as the last argument where it has one. They are those of engine/op and
// postproc/dist in float32; a test compares them over all operations.

DEVICE float f_add(float x, float y) { return x + y; }
DEVICE float f_sub(float x, float y) { return x - y; }
DEVICE float f_mul(float x, float y) { return x * y; }
DEVICE float f_div(float x, float y) { return x / y; }
DEVICE float f_safe_div(float x, float y) { return y == 0 ? 0 : x / y; }
DEVICE float f_scale(float x, float p) { return p * x; }
DEVICE float f_add_scalar(float x, float p) { return x + p; }
DEVICE float f_at_least(float x, float y) { return x >= y ? 1.0f : 0.0f; }

DEVICE float f_relu(float x) { return x > 0 || x != x ? x : 0; }
DEVICE float f_relu_grad(float y, float dy) { return y > 0 ? dy : 0; }
DEVICE float f_stop_gradient(float x) { return x; }
DEVICE float f_exp(float x) { return expf(x); }
DEVICE float f_exp_grad(float y, float dy) { return dy * y; }
DEVICE float f_log(float x) { return logf(x); }
DEVICE float f_log_grad(float x, float dy) { return dy / x; }
DEVICE float f_sqrt(float x) { return sqrtf(x); }
DEVICE float f_sqrt_grad(float y, float dy) { return dy * (0.5f / y); }
DEVICE float f_square(float x) { return x * x; }
DEVICE float f_square_grad(float x, float dy) { return dy * (2 * x); }
DEVICE float f_abs(float x) { return fabsf(x); }
DEVICE float f_abs_grad(float x, float dy) { return x > 0 ? dy : x < 0 ? -dy : 0; }
DEVICE float f_softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }
DEVICE float f_sigmoid(float x) {
	float e = expf(-fabsf(x));
	return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
DEVICE float f_softplus_grad(float x, float dy) { return dy * f_sigmoid(x); }
DEVICE float f_sigmoid_grad(float y, float dy) { return dy * (y * (1 - y)); }
DEVICE float f_tanh(float x) { return tanhf(x); }
DEVICE float f_tanh_grad(float y, float dy) { return dy * (1 - y * y); }
DEVICE float f_erf(float x) { return erff(x); }
DEVICE float f_erf_grad(float x, float dy) { return dy * (1.12837916709551257f * expf(-x * x)); }
DEVICE float f_pow(float x, float p) { return x <= 0 ? 0 : powf(x, p); }
DEVICE float f_pow_grad(float x, float dy, float p) { return x <= 0 ? 0 * dy : dy * (p * powf(x, p - 1)); }

DEVICE float f_broadcast(float x) { return x; }
DEVICE float f_pinball(float q, float y, float p) {
	float d = y - q;
	return d > 0 ? p * d : d < 0 ? (p - 1) * d : d;
}
DEVICE float f_pinball_slope(float q, float y, float p) { return y < q ? 1 - p : y > q ? -p : 0.5f - p; }

// CRPS of the normal distribution with its derivatives (postproc/dist, NormalCRPS).
struct normal_crps {
	float crps, dmu, dsigma;
};
DEVICE normal_crps normal_crps_of(float mu, float sigma, float y) {
	float d = mu - y;
	if (!(sigma >= 0) || d != d)
		return {NAN, NAN, NAN};
	float t = d != 0 ? d / sigma : 0;
	normal_crps r;
	r.dmu = erff(t * 0.707106781186547524f);
	r.dsigma = 0.797884560802865356f * expf(-0.5f * t * t) - 0.564189583547756287f;
	r.crps = sigma * r.dsigma + (d != 0 ? d * r.dmu : 0);
	return r;
}
DEVICE float f_gaussian_crps(float mu, float sigma, float y) { return normal_crps_of(mu, sigma, y).crps; }
DEVICE float f_gaussian_crps_dmu(float mu, float sigma, float y) { return normal_crps_of(mu, sigma, y).dmu; }
DEVICE float f_gaussian_crps_dsigma(float mu, float sigma, float y) { return normal_crps_of(mu, sigma, y).dsigma; }
