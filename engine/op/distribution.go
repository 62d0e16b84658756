package op

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// PinballLevels is the number of quantile levels of dist.PinballRule: i/100 for
// i = 1 … 99.
//
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1.
const PinballLevels = 99

// ScoreSpec is the attribute of operations that score a parametric
// distribution: scoring rule, family, and number of parameters. The parameters
// are the channels of an operand.
type ScoreSpec struct {
	Rule       dist.Rule
	Family     string
	Parameters int
}

// ScoreFunc computes a score. If grad is not nil, it adds the derivatives with
// respect to the parameters, as dist.Family.CRPS does.
type ScoreFunc func(grad, par []float64, y float64) float64

// Formula returns the score function of package dist.
//
// Errors: ErrShape if the family does not exist with that number of parameters,
// or has no score by this rule.
func (a ScoreSpec) Formula() (ScoreFunc, error) {
	row, ok := dist.RowByID(a.Family)
	if !ok || !row.HasRule(a.Rule) {
		return nil, shapeError("family %[2]q has no score %[1]q", a.Rule, a.Family)
	}
	if a.Rule == dist.CrossEntropyRule { // of logits, whatever their number
		return dist.HistogramCrossEntropy, nil
	}
	f := dist.FamilyByID(a.Family, a.Parameters)
	switch {
	case f == nil:
		return nil, shapeError("family %[2]q with %[3]d parameters has no score %[1]q", a.Rule, a.Family, a.Parameters)
	case a.Rule == dist.PinballRule:
		return dist.BernsteinPinball(a.Parameters-1, PinballLevels, f.Positive), nil
	}
	return f.CRPS, nil
}

// observationGrad returns the derivative with respect to y. For the CRPS it is
// 2F(y) − 1, for the pinball rule minus twice the mean slope over the levels.
func (a ScoreSpec) observationGrad() func(par []float64, y float64) float64 {
	f := dist.FamilyByID(a.Family, a.Parameters)
	if a.Rule == dist.CRPSRule {
		return func(par []float64, y float64) float64 { return 2*f.CDF(par, y) - 1 }
	}
	return func(par []float64, y float64) float64 {
		var sum float64
		for i := range PinballLevels {
			tau := float64(i+1) / (PinballLevels + 1)
			sum -= 2. / PinballLevels * dist.PinballSlope(f.Quantile(par, tau), y, tau)
		}
		return sum
	}
}

// scoreShapes checks par [N K …], y [N 1 …] and, with three operands, dy [N 1
// …]. It returns the shape of y.
func scoreShapes(in []Shape, a ScoreSpec, operands int) (Shape, error) {
	if len(in) != operands || len(in[0]) < 2 || len(in[0]) != len(in[1]) || in[0][1] != a.Parameters || in[1][1] != 1 {
		return nil, shapeError("operands %v, want %d parameters and one observation as channels", in, a.Parameters)
	}
	for i := range in[0] {
		if i != 1 && in[0][i] != in[1][i] {
			return nil, shapeError("parameters %v do not match observations %v", in[0], in[1])
		}
	}
	if operands > 2 && !in[2].Equal(in[1]) {
		return nil, shapeError("dy %v does not match observations %v", in[2], in[1])
	}
	if _, err := a.Formula(); err != nil {
		return nil, err
	}
	return in[1].Clone(), nil
}

// scoreWindow is point by point, except that a score reads all parameters.
func scoreWindow([]Shape, ScoreSpec) Window { return Window{FullAxes: []int{1}} }

// scoreFLOPs is a rough FLOP count. Families with incomplete gamma functions
// provide a larger one.
func scoreFLOPs(in []Shape, _ Shape, a ScoreSpec) int64 {
	each := int64(100)
	if a.Rule == dist.PinballRule {
		each = 4 * PinballLevels * int64(a.Parameters)
	} else if f := dist.FamilyByID(a.Family, a.Parameters); f != nil && f.FLOPs > 0 {
		each = f.FLOPs
	}
	return each * int64(in[1].Size())
}

// ScorePart selects what an operation on distributions computes.
type ScorePart uint8

// The parts.
const (
	ScoreValue ScorePart = iota // the score
	ScoreGrad                   // dy times the derivatives with respect to the parameters
	ScoreDy                     // dy times the derivative with respect to the observation
)

// Scorer computes one part of the scores of distributions. All loops over
// distributions use it. It holds scratch for one point: use it from one
// goroutine at a time.
type Scorer struct {
	part      ScorePart                              // score or derivative
	n, points int                                    // parameters, and points per batch item
	score     ScoreFunc                              // score function of package dist
	dy        func(par []float64, y float64) float64 // derivative with respect to y; nil unless part is ScoreDy
	par, grad []float64                              // scratch for one point
}

// NewScorer returns a scorer for parameters of shape [N K …]. It panics if the
// attributes fail the shape rule, which checks them before.
func NewScorer(part ScorePart, a ScoreSpec, shape Shape) *Scorer {
	score, err := a.Formula()
	if err != nil {
		panic(err) // the shape rule rejects such attributes
	}
	s := &Scorer{part: part, n: shape[1], points: shape[2:].Size(), score: score, par: make([]float64, shape[1]), grad: make([]float64, shape[1])}
	if part == ScoreDy {
		s.dy = a.observationGrad()
	}
	return s
}

// ScoreDistributions scores the points lo ≤ i < hi of the observations.
//
// Shape: in holds par [N K …], y [N 1 …] and, for gradients, dy [N 1 …]; out
// has the shape of par for ScoreGrad, else that of y.
func ScoreDistributions[T Elem](s *Scorer, in [][]T, out []T, lo, hi int) {
	for i := lo; i < hi; i++ {
		first, y := i/s.points*s.n*s.points+i%s.points, float64(in[1][i])
		for k := range s.par {
			s.par[k] = float64(in[0][first+k*s.points])
		}
		switch s.part {
		case ScoreValue:
			out[i] = T(s.score(nil, s.par, y))
		case ScoreDy:
			out[i] = T(float64(in[2][i]) * s.dy(s.par, y))
		case ScoreGrad:
			dy := float64(in[2][i])
			clear(s.grad)
			if dy != 0 { // masked points are skipped
				s.score(s.grad, s.par, y)
			}
			for k, g := range s.grad {
				out[first+k*s.points] = T(dy * g)
			}
		}
	}
}

// scoreRef is the reference kernel of a part.
func scoreRef(part ScorePart) func(c Call, a ScoreSpec) {
	return func(c Call, a ScoreSpec) {
		ScoreDistributions(NewScorer(part, a, c.InShape[0]), c.In, c.Out, 0, c.InShape[1].Size())
	}
}

// scoreSource is the source of the operations on distributions.
const scoreSource = "Gneiting and Raftery 2007, doi:10.1198/016214506000001437; the formulas, each with its source, are in postproc/dist"

// distributionScore is the score of a parametric distribution.
var distributionScore = Define(Spec[ScoreSpec]{
	Name:   "distribution_score",
	Doc:    "Score of a distribution whose parameters are the channels, against an observation: par [N K …], y [N 1 …] → [N 1 …].",
	Source: scoreSource,
	Shape:  func(in []Shape, a ScoreSpec) (Shape, error) { return scoreShapes(in, a, 2) },
	Grad: func(b *Builder, in []Value, _, dy Value, a ScoreSpec) []Value {
		out := []Value{distributionScoreGrad.add(b, a, in[0], in[1], dy)}
		if a.Rule == dist.CrossEntropyRule { // the number of a bin
			return append(out, Value{})
		}
		return append(out, distributionScoreDy.add(b, a, in[0], in[1], dy))
	},
	Window: scoreWindow, FLOPs: scoreFLOPs, Ref: scoreRef(ScoreValue), Cases: scoreCases(2, false),
})

// distributionScoreGrad is the gradient with respect to the parameters. One
// execution computes all derivatives, so that common terms such as incomplete
// gamma functions are evaluated once.
var distributionScoreGrad = Define(Spec[ScoreSpec]{
	Name:   "distribution_score_grad",
	Doc:    "Gradient of distribution_score with respect to the parameters: dy times the derivatives, [N K …].",
	Source: scoreSource,
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a ScoreSpec) (Shape, error) {
		if _, err := scoreShapes(in, a, 3); err != nil {
			return nil, err
		}
		return in[0].Clone(), nil
	},
	Window: scoreWindow, FLOPs: scoreFLOPs, Ref: scoreRef(ScoreGrad), Cases: scoreCases(3, false),
})

// distributionScoreDy is the gradient with respect to the observation.
var distributionScoreDy = Define(Spec[ScoreSpec]{
	Name:   "distribution_score_dy",
	Doc:    "Gradient of distribution_score with respect to y: dy times the derivative, 2F(y) − 1 for the CRPS.",
	Source: scoreSource,
	NoGrad: noSecondOrder,
	Shape:  func(in []Shape, a ScoreSpec) (Shape, error) { return scoreShapes(in, a, 3) },
	Window: scoreWindow, FLOPs: scoreFLOPs, Ref: scoreRef(ScoreDy), Cases: scoreCases(3, true),
})

// scoreCases are one case per family and rule, with that number of operands.
// byY omits the rules without a derivative with respect to y.
func scoreCases(operands int, byY bool) []Case[ScoreSpec] {
	var out []Case[ScoreSpec]
	add := func(rule dist.Rule, f *dist.Family, n int, fit func(par []float64)) {
		par, y := Shape{2, n, 1, 3, 4}, Shape{2, 1, 1, 3, 4}
		c := Case[ScoreSpec]{Name: string(rule) + " of " + f.ID, In: []Shape{par, y, y}[:operands], A: ScoreSpec{rule, f.ID, n}, Low: 0.2, High: 0.9}
		if rule == dist.CrossEntropyRule {
			c.Fixed = []int{1}
		}
		c.Make = func(in [][]float64) {
			points := par[2:].Size()
			v := make([]float64, n)
			for i := range in[1] {
				first := i/points*n*points + i%points
				for k := range v {
					v[k] = in[0][first+k*points]
				}
				fit(v)
				for k := range v {
					in[0][first+k*points] = v[k]
				}
				switch rule {
				case dist.CrossEntropyRule:
					in[1][i] = math.Floor(in[1][i] * float64(n))
				case dist.PinballRule: // between two levels, where the loss is differentiable
					in[1][i] = f.Quantile(v, 0.725)
				}
			}
		}
		out = append(out, c)
	}
	const size = 5
	for _, r := range dist.Table {
		f := r.New(size)
		for _, rule := range r.Rules {
			switch {
			case rule != dist.CrossEntropyRule:
				add(rule, f, len(f.Parameters), func(par []float64) { toValidParameters(f, par) })
			case !byY:
				add(rule, f, size, func([]float64) {})
			}
		}
	}
	return out
}

// toValidParameters maps numbers between 0 and 1 to valid parameters. Locations
// ascend and, for censored families, start below 0. Degrees of freedom are
// large enough for a finite variance.
func toValidParameters(f *dist.Family, par []float64) {
	switch {
	case f == dist.Student:
		par[2] += 2
	case slices.Equal(f.Roles[:2], []dist.Role{dist.Location, dist.Location}):
		slices.Sort(par)
		for k := range par {
			if f.Positive {
				par[k] -= 0.4
			}
		}
	}
}

// DistributionScore scores distributions, whose parameters are the channels of
// par, against observations, point by point. a selects a rule of dist.Table:
// CRPSRule for all families but histograms, PinballRule for Bernstein quantile
// functions, CrossEntropyRule for the logits of a histogram, where y is the
// number of a bin.
//
// Shape: par [N K …], y [N 1 …] → [N 1 …].
// Unit: that of y; for the cross-entropy nats. Better: lower.
// Missing: NaN operands and invalid parameters give NaN.
// Gradient: closed form, to the parameters and to y (not for the
// cross-entropy).
// Errors: ErrShape, also if the family does not exist with that number of
// parameters.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
// postproc/dist names the source of each formula.
func DistributionScore(b *Builder, par, y Value, a ScoreSpec) Value {
	return distributionScore.add(b, a, par, y)
}

// Pinball is the pinball loss of a quantile q of level tau against y, point by
// point, broadcast:
//
//	(y − q)·(tau − 1[y < q])
//
// Unit: that of y. Better: lower.
// Gradient: 1[y < q] − tau to q, its negative to y; at y = q the mean of both
// sides.
// Errors: ErrShape.
// Source: Koenker and Bassett 1978, doi:10.2307/1913643.
func Pinball(b *Builder, q, y Value, tau float64) Value { return pinball.add(b, tau, q, y) }

// pinballCases are the shapes with which the pinball loss is tested.
var pinballCases = []Case[float64]{
	{Name: "low", In: []Shape{{2, 3, 5, 6, 7}, {2, 3, 5, 6, 7}}, A: 0.1},
	{Name: "stretched", In: []Shape{{2, 3, 1, 6, 7}, {2, 1, 1, 6, 7}}, A: 0.75},
}

// pinballSource is the source of the pinball loss.
const pinballSource = "Koenker and Bassett 1978, doi:10.2307/1913643; postproc/dist"

// pinball is the pinball loss, with the quantile level as parameter of its
// formula.
var pinball = elementwise(Spec[float64]{
	Name:   "pinball",
	Doc:    "Pinball loss (y − q)·(p − 1[y < q]) of a quantile q of level p against y, point by point, broadcast.",
	Source: pinballSource,
	Grad: func(b *Builder, in []Value, _, dy Value, tau float64) []Value {
		d := Mul(b, dy, pinballSlope.add(b, tau, in[0], in[1]))
		return []Value{SumTo(b, d, in[0].Shape()), SumTo(b, Scale(b, d, -1), in[1].Shape())}
	},
	Cases: pinballCases,
}, graph.Scalar{F2: dist.Pinball})

// pinballSlope is the derivative of the pinball loss with respect to the
// quantile.
var pinballSlope = elementwise(Spec[float64]{
	Name:   "pinball_slope",
	Doc:    "Derivative of pinball with respect to q: 1[y < q] − p, and the mean of both sides at y = q.",
	Source: pinballSource,
	NoGrad: noSecondOrder,
	Cases:  pinballCases,
}, graph.Scalar{F2: dist.PinballSlope})

// atLeast compares two values. It has no gradient: its derivative is 0 almost
// everywhere.
var atLeast = elementwise(Spec[none]{
	Name:   "at_least",
	Doc:    "1 where x ≥ y, else 0, point by point, broadcast.",
	Source: "elementary",
	NoGrad: "its derivative is 0 almost everywhere",
	Cases:  binaryCases(-1, 1),
}, graph.Scalar{F2: func(x, y, _ float64) float64 {
	if x >= y {
		return 1
	}
	return 0
}})

// AtLeast is 1 where x ≥ y, else 0, point by point, broadcast.
//
// Missing: NaN gives 0. Gradient: none. Errors: ErrShape.
func AtLeast(b *Builder, x, y Value) Value { return atLeast.add(b, none{}, x, y) }
