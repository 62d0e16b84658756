package op

import (
	"math"
)

// SimilarityOptions holds the constants of SSIM and MS-SSIM. Range is the
// dynamic range L of the values. It must be set, and comes from the training
// data.
type SimilarityOptions struct {
	Range  float64
	K1, K2 float64 // 0 means 0.01 and 0.03
}

// The window of SSIM: a Gaussian on 11×11 points with standard deviation 1.5.
const (
	ssimSide  = 11
	ssimSigma = 1.5
)

// msWeights are the exponents of the five scales of MS-SSIM, finest first.
//
// Source: Wang et al. 2003, doi:10.1109/ACSSC.2003.1292216, section 3.2.
var msWeights = [...]float64{0.0448, 0.2856, 0.3001, 0.2363, 0.1333}

// ssimWindow is the window in one direction, with sum 1.
func ssimWindow() []float32 {
	var w [ssimSide]float64
	var total float64
	for i := range w {
		d := float64(i - ssimSide/2)
		w[i] = math.Exp(-d * d / (2 * ssimSigma * ssimSigma))
		total += w[i]
	}
	out := make([]float32, ssimSide)
	for i := range w {
		out[i] = float32(w[i] / total)
	}
	return out
}

// gaussianBlur averages planes [P 1 1 H W] with the window, at valid positions
// only: the result is smaller by 10 rows and columns.
func gaussianBlur(b *Builder, x Value) Value {
	w := ssimWindow()
	rows := b.Const("", Shape{1, 1, 1, ssimSide, 1}, w)
	cols := b.Const("", Shape{1, 1, 1, 1, ssimSide}, w)
	return Conv3D(b, Conv3D(b, x, rows, Conv{}), cols, Conv{})
}

// planeMean is the mean of each plane [P 1 1 H W], without gradient.
func planeMean(b *Builder, x Value) Value { return StopGradient(b, Mean(b, x, 1, 2, 3, 4)) }

// ssimMaps returns the maps ssim and cs of planes x, y [P 1 1 H W]; SSIM has
// the formulas.
func ssimMaps(b *Builder, x, y Value, o SimilarityOptions) (ssim, cs Value) {
	if o.K1 == 0 {
		o.K1 = 0.01
	}
	if o.K2 == 0 {
		o.K2 = 0.03
	}
	c1, c2 := o.K1*o.Range*o.K1*o.Range, o.K2*o.Range*o.K2*o.Range
	// Variances do not depend on an offset, which float32 would lose them in.
	ox, oy := planeMean(b, x), planeMean(b, y)
	x, y = Sub(b, x, ox), Sub(b, y, oy)
	mx, my := gaussianBlur(b, x), gaussianBlur(b, y)
	sx := Sub(b, gaussianBlur(b, Square(b, x)), Square(b, mx))
	sy := Sub(b, gaussianBlur(b, Square(b, y)), Square(b, my))
	sxy := Sub(b, gaussianBlur(b, Mul(b, x, y)), Mul(b, mx, my))
	mx, my = Add(b, mx, ox), Add(b, my, oy)
	mxx, myy, mxy := Square(b, mx), Square(b, my), Mul(b, mx, my)
	cs = Div(b, AddScalar(b, Scale(b, sxy, 2), c2), AddScalar(b, Add(b, sx, sy), c2))
	lum := Div(b, AddScalar(b, Scale(b, mxy, 2), c1), AddScalar(b, Add(b, mxx, myy), c1))
	return Mul(b, cs, lum), cs
}

// planes checks x and y and reshapes them to planes [P 1 1 H W].
func planes(b *Builder, what string, x, y Value, o SimilarityOptions) (Value, Value, bool) {
	if !x.Valid() || !y.Valid() {
		return x, y, false
	}
	s := x.Shape()
	switch {
	case !s.Equal(y.Shape()) || len(s) < 2:
		b.Fail(what, shapeError("x is %v, y is %v; want equal shapes of two axes or more", s, y.Shape()))
		return x, y, false
	case !(o.Range > 0):
		b.Fail(what, shapeError("the range of values is %v, want a positive number", o.Range))
		return x, y, false
	case min(x.Dim(-1), x.Dim(-2)) < ssimSide:
		b.Fail(what, shapeError("fields of %d×%d points are smaller than the window of %d", x.Dim(-2), x.Dim(-1), ssimSide))
		return x, y, false
	}
	p := Shape{s[:len(s)-2].Size(), 1, 1, x.Dim(-2), x.Dim(-1)}
	return Reshape(b, x, p), Reshape(b, y, p), true
}

// SSIM is the structural similarity of x and y, averaged over valid window
// positions and all planes (batch, channels, levels):
//
//	cs   = (2σxy + C2)/(σx² + σy² + C2),        C2 = (K2·L)²
//	ssim = cs·(2μxμy + C1)/(μx² + μy² + C1),    C1 = (K1·L)²
//
// with moments in an 11×11 Gaussian window of standard deviation 1.5.
//
// Shape: x, y [… H W] of one shape, H, W ≥ 11 → scalar; 1 for equal fields.
// Better: higher.
// Gradient: by composition.
// Window: 11 along latitude and longitude.
// Errors: ErrShape, also if Range is not positive.
// Source: Wang et al. 2004, doi:10.1109/TIP.2003.819861.
func SSIM(b *Builder, x, y Value, o SimilarityOptions) Value {
	px, py, ok := planes(b, "ssim", x, y, o)
	if !ok {
		return Value{}
	}
	s, _ := ssimMaps(b, px, py, o)
	return Mean(b, s)
}

// MSSSIM is the multi-scale structural similarity, averaged over planes:
//
//	Π max(mean cs, 0)^w over all scales but the coarsest · max(mean ssim, 0)^w of the coarsest
//
// Between scales, fields are averaged over 2×2 points. Odd sides get a row of
// zeros in front, which counts in the mean.
//
// Five scales need sides above 160 points. On smaller fields the coarsest
// scales are omitted until the window fits with one point to spare. The
// remaining exponents are divided by their sum, and a note in the graph records
// it.
//
// Shape: x, y [… H W] of one shape, H, W ≥ 11 → scalar; 1 for equal fields.
// Better: higher.
// Gradient: by composition; 0 where a factor is not positive.
// Errors: ErrShape, also if Range is not positive.
// Source: Wang et al. 2003, doi:10.1109/ACSSC.2003.1292216.
func MSSSIM(b *Builder, x, y Value, o SimilarityOptions) Value {
	px, py, ok := planes(b, "ms_ssim", x, y, o)
	if !ok {
		return Value{}
	}
	scales := 1
	side := min(x.Dim(-1), x.Dim(-2))
	for scales < len(msWeights) && side > (ssimSide-1)<<scales {
		scales++
	}
	var total float64
	for _, w := range msWeights[:scales] {
		total += w
	}
	if scales < len(msWeights) {
		b.Note("ms_ssim on %d×%d points uses %d of %d scales, with exponents %.4g divided by their sum",
			x.Dim(-2), x.Dim(-1), scales, len(msWeights), msWeights[:scales])
	}
	var product Value
	for k := range scales {
		ssim, cs := ssimMaps(b, px, py, o)
		if k == scales-1 {
			cs = ssim
		}
		factor := PowPositive(b, Mean(b, cs, 1, 2, 3, 4), msWeights[k]/total)
		if k == 0 {
			product = factor
		} else {
			product = Mul(b, product, factor)
		}
		if k < scales-1 {
			px, py = downsample(b, px), downsample(b, py)
		}
	}
	return Mean(b, product)
}

// downsample averages planes over 2×2 points. Odd sides get a row of zeros in
// front.
func downsample(b *Builder, x Value) Value {
	for axis := 3; axis <= 4; axis++ {
		if x.Dim(axis)%2 == 1 {
			x = PadZeros(b, x, axis, 1, 0)
		}
	}
	return AvgPool(b, x, [3]int{1, 2, 2})
}
