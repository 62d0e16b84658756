package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A head of any family has the same outputs as that of a normal distribution, shift and sigma, and
// some more. Links make the parameters of them, in units of the error scale; those that say where
// the distribution lies count from the members' mean. An untrained network gives a distribution
// around that mean, with a standard deviation that is affine in the members' one.

// logitOfNormal brings the logistic distribution function near that of the normal distribution.
//
// Source: Haley 1952, Stanford Applied Mathematics and Statistics Laboratory, technical report 15.
const logitOfNormal = 1.702

// leastProbability is that of a bin of an untrained histogram, in which no observation may lie.
const leastProbability = 1e-6

// family is the distribution whose parameters the average of so many networks gives; nil for a
// spread head.
func (s Spec) family(networks int) *dist.Family {
	switch {
	case s.Head != DistributionHead:
		return nil
	case s.Family == "":
		return dist.Normal
	case s.Family == config.BernsteinFamily:
		return dist.Bernstein(s.Degree)
	case s.Family == config.HistogramFamily:
		return dist.Histogram(networks*(s.Bins-1) + 1)
	}
	return dist.FamilyByID(s.Family)
}

// Predicted is the family of what a model of so many networks predicts: as family, but for what is made of it
// by calibration.
func (s Spec) Predicted(networks int) *dist.Family {
	if s.Tails == config.StudentCalibration {
		return dist.Student
	}
	return s.family(networks)
}

// HeadOf is the part of a spec that a configuration says of the head.
func (s *Spec) HeadOf(c *config.TrainConfig) {
	if c.Model.Head != DistributionHead {
		return
	}
	if c.Model.Family != config.NormalFamily {
		s.Family = c.Model.Family
	}
	if c.Calibrate.Distribution != config.NoCalibration {
		s.Tails = c.Calibrate.Distribution
	}
	switch s.Family {
	case config.BernsteinFamily:
		s.Degree = c.Model.Degree
	case config.HistogramFamily:
		s.Bins = c.Model.Bins
	}
	if loss := c.Train.Train.Loss; len(loss.Threshold) > 0 {
		var words []string
		for _, q := range loss.Threshold {
			words = append(words, q.String())
		}
		s.Thresholds, s.ThresholdWeight = strings.Join(words, thresholdsApart), loss.ThresholdWeight
	}
}

// thresholdsApart stands between the events of Spec.Thresholds.
const thresholdsApart = "; "

// thresholds are the events of the loss.
//
// Errors: as eventOf.
func (s Spec) thresholds() ([]ensemble.Question, error) {
	if s.Thresholds == "" {
		return nil, nil
	}
	var out []ensemble.Question
	for _, text := range strings.Split(s.Thresholds, thresholdsApart) {
		q, err := ensemble.ParseQuestion(text)
		if err != nil {
			return nil, err
		}
		if q.Event, err = EventOf(q); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// readsCentre tells whether the network has an input of the members' mean in units of the error
// scale: it matters where 0 and thresholds are.
func (s Spec) readsCentre() bool { return s.Family != "" || s.Thresholds != "" }

// WithCentre gives a batch room for that input, if it is read.
func (b *Batch) WithCentre(s Spec) {
	if s.readsCentre() {
		b.Centre = make([]float32, len(b.Spread))
	}
}

// parameterNames are the outputs of the network beside the spread, of a family that is not normal.
// The edges of a histogram are none: they are the task's.
func (s Spec) parameterNames() []string {
	var out []string
	f := s.family(1)
	for i, name := range f.Parameters {
		if s.Family != config.HistogramFamily || f.Roles[i] == dist.Pure {
			out = append(out, "parameter_"+name)
		}
	}
	return out
}

// Extra are the outputs that the family needs beside shift and sigma.
func (s Spec) Extra() []unet3d.ExtraOutput {
	many := func(name string, n int, start func(i int) float64) (out []unet3d.ExtraOutput) {
		for i := range n {
			out = append(out, unet3d.ExtraOutput{Name: fmt.Sprintf("%s_%02d", name, i+1), Start: start(i)})
		}
		return out
	}
	switch s.Family {
	case dist.ZeroNormal.ID:
		return []unet3d.ExtraOutput{{Name: "p"}}
	case dist.CSGamma.ID:
		return []unet3d.ExtraOutput{{Name: "gamma_shift", Start: unet3d.InverseSoftplus(startGammaShift)}}
	case config.BernsteinFamily:
		z := dist.NormalCoefficients(s.Degree)
		return many("step", s.Degree, func(i int) float64 { return unet3d.InverseSoftplus(z[i+1] - z[i]) })
	case config.HistogramFamily:
		return many("bin", s.Bins, func(int) float64 { return 0 })
	}
	return nil
}

// startGammaShift is how far left a gamma distribution is shifted at first, in units of the error
// scale. Where all members have no rain, zero has then a probability of about 0.6.
const startGammaShift = 0.35

// link makes the parameters of a family of the outputs of a network, [N V D H W] each, in the
// order of parameterNames; of a histogram the logarithms of its probabilities, but for a constant.
func (s Spec) link(b *graph.Builder, k *Task, out unet3d.CalibratedOutput, centre graph.Value) []graph.Value {
	shift, sigma := out.Shift, out.Sigma
	mean := func() graph.Value { return op.Add(b, centre, shift) }
	switch s.Family {
	case dist.Logistic.ID, dist.TruncatedLogistic.ID, dist.CensoredLogistic.ID:
		return []graph.Value{shift, op.Scale(b, sigma, 1/dist.LogisticStd)}
	case dist.LogNormal.ID: // by its moments
		m := unet3d.SigmaOf(b, mean())
		v := op.Log(b, op.AddScalar(b, op.Square(b, op.Div(b, sigma, m)), 1))
		return []graph.Value{op.Sub(b, op.Log(b, m), op.Scale(b, v, 0.5)), op.Sqrt(b, v)}
	case dist.ZeroNormal.ID: // near the censored normal distribution
		logit := op.Scale(b, op.Div(b, mean(), sigma), -logitOfNormal)
		return []graph.Value{op.Sigmoid(b, op.Add(b, logit, out.Extra[0])), shift, sigma}
	case dist.CSGamma.ID: // by the moments of the gamma distribution before it is shifted back
		left := op.Softplus(b, out.Extra[0])
		m := unet3d.SigmaOf(b, op.Add(b, mean(), left))
		scale := op.Div(b, op.Square(b, sigma), m)
		return []graph.Value{op.Div(b, m, scale), scale, left}
	case config.BernsteinFamily:
		level := b.Scalar(dist.NormalCoefficients(s.Degree)[0])
		a := []graph.Value{op.Add(b, shift, op.Mul(b, sigma, level))}
		for _, step := range out.Extra {
			a = append(a, op.Add(b, a[len(a)-1], op.Mul(b, sigma, op.Softplus(b, step))))
		}
		return a
	case config.HistogramFamily:
		return s.logits(b, k, out)
	}
	return []graph.Value{shift, sigma}
}

// logits are the logarithms of the probabilities of the bins under a logistic distribution of the
// network's mean and standard deviation, and what the network adds to each.
func (s Spec) logits(b *graph.Builder, k *Task, out unet3d.CalibratedOutput) []graph.Value {
	width := op.Scale(b, out.Sigma, 1/dist.LogisticStd)
	var below, logits []graph.Value // below the upper edge of each bin but the last
	for i := range s.Bins - 1 {
		z := op.Div(b, op.Sub(b, k.edge(b, out.Shift, 0, i+1), out.Shift), width)
		below = append(below, op.Sigmoid(b, z))
	}
	for i, extra := range out.Extra {
		var p graph.Value
		switch i {
		case 0:
			p = below[0]
		case s.Bins - 1:
			p = op.AddScalar(b, op.Scale(b, below[i-1], -1), 1)
		default:
			p = op.Sub(b, below[i], below[i-1])
		}
		logits = append(logits, op.Add(b, op.Log(b, op.AddScalar(b, p, leastProbability)), extra))
	}
	return logits
}

// edge is edge i of the histograms of some variables, from number v on, in units of the error
// scale; of a task that is not fitted any number.
//
// Shape: that of a factor of fields of those variables.
func (k *Task) edge(b *graph.Builder, like graph.Value, v, i int) graph.Value {
	x := make([]float32, like.Dim(1)*like.Dim(2))
	for at := range x {
		if x[at] = float32(i); k.Edges != nil {
			x[at] = float32(k.Edges[v*like.Dim(2)+at][i])
		}
	}
	return b.Const("", graph.Shape{1, like.Dim(1), like.Dim(2), 1, 1}, x)
}

// probabilities are the softmax of logits.
func probabilities(b *graph.Builder, logits []graph.Value) []graph.Value {
	total := logits[0] // log Σ exp: log(eˣ+eʸ) = x + softplus(y−x), which never overflows
	for _, l := range logits[1:] {
		total = op.Add(b, total, op.Softplus(b, op.Sub(b, l, total)))
	}
	out := make([]graph.Value, len(logits))
	for i, l := range logits {
		out[i] = op.Exp(b, op.Sub(b, l, total))
	}
	return out
}

// boundedVariable tells whether values of a variable are known to end at 0.
func boundedVariable(name string) bool {
	v, _ := ensemble.VariableNamed(name)
	bounded, _ := v.NonNegative()
	return bounded
}

// head is what comes out of a network of a distribution, before a histogram's probabilities are
// made of their logarithms, and the members' mean, if that is read.
//
// Shape: [N V D H W] each.
type head struct {
	parameters []graph.Value
	centre     graph.Value
}

// distributionScore is the score of a distribution against what the analysis differs from the
// members' mean, point by point, with what lies beyond thresholds.
//
// Shape: residual [N V D H W] → the same.
func (s Spec) distributionScore(b *graph.Builder, k *Task, h head, residual graph.Value) graph.Value {
	if !s.readsCentre() {
		return op.GaussianCRPS(b, h.parameters[0], h.parameters[1], residual)
	}
	events, err := s.thresholds()
	if err != nil {
		return b.Fail("loss", err)
	}
	var scores []graph.Value
	for v, target := range k.Targets {
		name := target.Variable
		of := func(x graph.Value) graph.Value {
			if len(k.Targets) == 1 {
				return x
			}
			return op.Slice(b, x, 1, v, v+1)
		}
		par := make([]graph.Value, len(h.parameters))
		for i, p := range h.parameters {
			par[i] = of(p)
		}
		y := of(residual)
		if s.Family == config.HistogramFamily {
			scores = append(scores, s.crossEntropy(b, k, v, par, y))
			continue
		}
		f := s.family(1)
		if boundedVariable(name) && f.ID == config.BernsteinFamily {
			f = dist.CensoredBernstein(s.Degree)
		}
		mine := slices.DeleteFunc(slices.Clone(events), func(q ensemble.Question) bool { return q.Variable != ensemble.ShortName(name) })
		if f.Positive || len(mine) > 0 { // where 0 and thresholds are
			y = op.Add(b, y, of(h.centre))
			for i, role := range f.Roles {
				if role == dist.Location {
					par[i] = op.Add(b, par[i], of(h.centre))
				}
			}
		}
		score := s.scored(b, f, par, y)
		whole := score
		for _, q := range mine {
			score = op.Add(b, score, op.Scale(b, s.inEvent(b, k, v, f, par, y, whole, q.Event), s.ThresholdWeight))
		}
		scores = append(scores, score)
	}
	if len(scores) == 1 {
		return scores[0]
	}
	return op.Concat(b, 1, scores...)
}

// scored is the score of one variable's distributions of a family.
func (s Spec) scored(b *graph.Builder, f *dist.Family, par []graph.Value, y graph.Value) graph.Value {
	if f == dist.Normal {
		return op.GaussianCRPS(b, par[0], par[1], y)
	}
	rule := op.CRPSRule
	if s.Loss == config.PinballLoss {
		rule = op.PinballRule
	}
	return op.DistributionScore(b, op.Concat(b, 1, par...), y, op.Scored{Rule: rule, Family: f.ID, Parameters: len(par)})
}

// inEvent is the score weighted with 1 where values are of an event, else 0; whole is that without
// weights.
func (s Spec) inEvent(b *graph.Builder, k *Task, v int, f *dist.Family, par []graph.Value, y, whole graph.Value, e ensemble.Event) graph.Value {
	above := func(limit float64) graph.Value {
		d := y.Dim(2)
		x := make([]float32, d)
		for l := range x {
			x[l] = float32(limit / k.ErrorScale[v*d+l])
		}
		t := b.Const("", graph.Shape{1, 1, d, 1, 1}, x)
		excess := make([]graph.Value, len(par))
		for i, p := range par {
			if excess[i] = p; f.Excess.Signs[i] != 0 {
				excess[i] = op.Add(b, p, op.Scale(b, t, f.Excess.Signs[i]))
			}
		}
		return s.scored(b, f.Excess.Family, excess, op.ReLU(b, op.Sub(b, y, t)))
	}
	switch e.Relation {
	case ensemble.Above:
		return above(e.Lower)
	case ensemble.Below:
		return op.Sub(b, whole, above(e.Upper))
	}
	return op.Sub(b, above(e.Lower), above(e.Upper))
}

// crossEntropy is that of one variable's histograms.
func (s Spec) crossEntropy(b *graph.Builder, k *Task, v int, logits []graph.Value, y graph.Value) graph.Value {
	bin := op.AtLeast(b, y, k.edge(b, y, v, 1))
	for i := 2; i < s.Bins; i++ {
		bin = op.Add(b, bin, op.AtLeast(b, y, k.edge(b, y, v, i)))
	}
	return op.DistributionScore(b, op.Concat(b, 1, logits...), bin, op.Scored{Rule: op.CrossEntropyRule, Family: config.HistogramFamily, Parameters: len(logits)})
}

// Residuals are counted by the leading bits of their floating-point numbers, in order: cells
// whose width is 1/128 of their value or less.
const (
	cellBits = 16
	cells    = 1 << cellBits
	// cellWeight makes whole numbers of area weights, so that sums do not depend on their order.
	cellWeight = 1024
)

// cellOf is the number of the cell of x, which ascends with x.
func cellOf(x float32) int {
	bits := math.Float32bits(x)
	if bits>>31 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return int(bits >> (32 - cellBits))
}

// cellEdge is the least number of a cell.
func cellEdge(cell int) float64 {
	bits := uint32(cell) << (32 - cellBits)
	if bits>>31 == 1 {
		bits &^= 1 << 31
	} else {
		bits = ^bits
	}
	return float64(math.Float32frombits(bits))
}

// edgesOf are the edges of so many bins that hold equal parts of what was counted: its quantiles,
// of levels 0, 1/bins, …, 1. Bins that would be empty have the width of a cell.
//
// Errors: if nothing was counted, or too little differs.
func edgesOf(counts []float64, bins int) ([]float64, error) {
	var total float64
	first, last := -1, -1
	for c, n := range counts {
		if total += n; n > 0 {
			if last = c; first < 0 {
				first = c
			}
		}
	}
	if last-first < bins {
		return make([]float64, bins+1), fmt.Errorf("differences from the members' mean, which are alike or missing, make no %d bins", bins)
	}
	edges := []float64{cellEdge(first)}
	var sum float64
	at := first // edges so far end before this cell
	for c := first; c <= last && len(edges) < bins; c++ {
		sum += counts[c]
		for len(edges) < bins && sum >= total*float64(len(edges))/float64(bins) && c >= at {
			if last-c < bins-len(edges) { // as many cells as edges are left
				break
			}
			at = c + 1
			edges = append(edges, cellEdge(at))
		}
	}
	for len(edges) < bins {
		at++
		edges = append(edges, cellEdge(at))
	}
	return append(edges, cellEdge(last+1)), nil
}

// HeadSums are what the fit of a head needs of the training dates.
type HeadSums struct {
	bins     int
	positive bool
	counts   [][]float64 // [variable][level][cell] of differences from the members' mean
	least    []smallest  // [variable][level], of the analyses, if it is below 0
}

// NewHeadSums are those of no date; nil if the head needs none.
func (s Spec) NewHeadSums(targets int) *HeadSums {
	f := s.family(1)
	if f == nil || s.Bins == 0 && !f.Positive {
		return nil
	}
	h := &HeadSums{bins: s.Bins, positive: f.Positive, least: make([]smallest, targets)}
	for range targets {
		if s.Bins > 0 {
			h.counts = append(h.counts, make([]float64, cells))
		}
	}
	return h
}

// add takes one target of a date.
func (h *HeadSums) add(at int, obs, mean []float32, weights []float64, valid ensemble.Valid) {
	for p, y := range obs {
		d := y - mean[p]
		if d != d {
			continue
		}
		if h.bins > 0 {
			h.counts[at][cellOf(d)] += math.Round(cellWeight * weights[p])
		}
		if float64(y) < h.least[at].Value {
			h.least[at] = smallest{float64(y), valid}
		}
	}
}

// negligible is the share of the error scale below 0 that counts as 0: packing leaves such values
// of precipitation.
const negligible = 0.01

// smallest is the least value of a target in a training, and when.
type smallest struct {
	Value float64
	When  ensemble.Valid
}

// FitHead gives the task of the leading rank what the head needs, with the bits of one rank that
// has all.
//
// Errors: exit 65 for values that the family does not have, and for differences of which no bins
// can be made.
func (k *Task) FitHead(h *HeadSums, ranks *team.Team) error {
	if h == nil {
		return nil
	}
	least := h.least
	if ranks != nil {
		all, err := team.Tell(ranks, team.Outcome[[]smallest]{Result: h.least}, nil)
		if err != nil {
			return err
		}
		for _, o := range all {
			for at, l := range o.Result {
				if l.Value < least[at].Value {
					least[at] = l
				}
			}
		}
	}
	counts := make([][]float64, len(h.counts))
	for at := range h.counts {
		var err error
		if counts[at], err = ranks.AddUp(h.counts[at]); err != nil {
			return err
		}
	}
	if !ranks.Leads() {
		return nil
	}
	for at, l := range least {
		name := k.Named(at)
		if k.Score[at] != 0 && h.positive && l.Value < -negligible*k.ErrorScale[at] {
			return &exit.Error{Code: exit.BadData, What: "an analysis has values below 0, and the family of model.family has none",
				At: fmt.Sprintf("%s at %s, training analyses", name, l.When), Why: fmt.Sprintf("the least value is %g", l.Value),
				Fix: "set model.family: normal, logistic, bernstein or histogram, or correct the analyses"}
		}
	}
	for at := range counts {
		edges, err := edgesOf(counts[at], h.bins)
		if err != nil && k.Score[at] != 0 {
			return &exit.Error{Code: exit.BadData, What: "the training starts make no histogram", At: k.Named(at),
				Why: err.Error(), Fix: "lower model.bins, or look at the fields with `ensemble inspect --stats`", Err: err}
		}
		for i := range edges {
			edges[i] /= k.ErrorScale[at]
		}
		k.Edges = append(k.Edges, edges)
	}
	return nil
}

// heads gathers what the networks of a prediction give of a distribution that is not normal.
type heads struct {
	m      *Model
	names  []string
	fields [][]float32 // means over networks by name; if they are apart those of all networks
}

// newHeads is nil for normal distributions and spread heads.
func (m *Model) newHeads(n int) *heads {
	if m.Spec.Head != DistributionHead || m.Spec.Family == "" {
		return nil
	}
	h := &heads{m: m, names: m.Spec.parameterNames()}
	if !h.apart() {
		for range h.names {
			h.fields = append(h.fields, make([]float32, n))
		}
	}
	return h
}

// apart tells whether the average of networks does not have the means of their parameters.
func (h *heads) apart() bool {
	return h.m.Spec.Family == config.HistogramFamily || h.m.Spec.Family == dist.CSGamma.ID
}

// take adds an output of a network, which counts as a share of a mean.
func (h *heads) take(name string, x []float32, share float32) {
	if h.apart() {
		h.fields = append(h.fields, slices.Clone(x))
		return
	}
	to := h.fields[slices.Index(h.names, name)]
	for i, v := range x {
		to[i] += share * v
	}
}

// physical gives a forecast the parameters in physical units, and mean and standard deviation.
//
// Errors: if the networks give no distribution of the family.
func (h *heads) physical(out *Forecast, init ensemble.Init, stats []Statistics) error {
	k, n := h.m.Local, len(out.Spread)
	d := len(k.Features.Axes.Levels)
	families := make([]*dist.Family, len(k.Targets))
	for v, t := range k.Targets {
		families[v] = h.m.DistributionOf(t.Variable)
	}
	out.Parameters = make([][]float32, len(h.m.Family.Parameters))
	for i := range out.Parameters {
		out.Parameters[i] = make([]float32, n)
	}
	out.Mean, out.Sigma = make([]float32, n), make([]float32, n)
	off := 0
	for at, st := range stats {
		f := families[at/d]
		for q, centre := range st.Mean {
			i := off + q
			par := h.at(i, at)
			ok := true
			for p, role := range f.Roles {
				switch e := k.ErrorScale[at]; role {
				case dist.Location:
					par[p] = float64(centre) + e*par[p]
					if h.m.Spec.Bins > 0 && boundedVariable(k.Targets[at/d].Variable) {
						par[p] = max(0, par[p]) // the rest is a mass at 0
					}
				case dist.Scale:
					par[p] *= e
				case dist.Log:
					par[p] += math.Log(e)
				}
				if centre != centre {
					par[p] = float64(centre)
				}
				out.Parameters[p][i] = float32(par[p])
				ok = ok && par[p]-par[p] == 0
			}
			mean, std := f.Moments(par)
			if centre != centre {
				mean, std = float64(centre), float64(centre)
			} else if !ok || mean-mean != 0 || !(std >= 0) {
				return notFinite(k, init, at, q)
			}
			out.Mean[i], out.Sigma[i] = float32(mean), float32(std)
		}
		off += len(st.Mean)
	}
	return nil
}

// at are the parameters of the average of all networks at a point of a target, as the networks
// give them.
func (h *heads) at(i, target int) []float64 {
	if !h.apart() {
		par := make([]float64, len(h.fields))
		for k, f := range h.fields {
			par[k] = float64(f[i])
		}
		return par
	}
	var p [][]float64
	for one := range slices.Chunk(h.fields, len(h.names)) {
		q := make([]float64, len(one))
		for k, f := range one {
			q[k] = float64(f[i])
		}
		p = append(p, q)
	}
	if h.m.Spec.Family == dist.CSGamma.ID {
		return dist.AverageCSGamma(p)
	}
	edges, share := dist.AverageHistograms(h.m.Local.Edges[target], p)
	return append(edges, share...)
}

// DistributionOf is the family of a variable of which the model gives the parameters. What cannot
// be negative is censored at 0, which keeps the probabilities of all other values.
func (m *Model) DistributionOf(variable string) *dist.Family {
	if !boundedVariable(variable) {
		return m.Family
	}
	switch m.Family.ID {
	case dist.Normal.ID:
		return dist.CensoredNormal
	case dist.Logistic.ID:
		return dist.CensoredLogistic
	case config.BernsteinFamily:
		return dist.CensoredBernstein(m.Spec.Degree)
	}
	return m.Family
}

// ParameterFields are fields of the parameters of a distribution, in the order of its family.
type ParameterFields [][]float32

// At reads the parameters of a point into par and gives it.
func (f ParameterFields) At(par []float64, point int) []float64 {
	for k := range f {
		par[k] = float64(f[k][point])
	}
	return par
}

// ParametersAt are those of a target, [parameter][point], of a part of the fields: of a normal
// distribution mean and standard deviation.
func (f *Forecast) ParametersAt(at, points int, part func(field []float32) []float32) ParameterFields {
	all := f.Parameters
	if all == nil {
		all = [][]float32{f.Mean, f.Sigma}
	}
	out := make(ParameterFields, len(all))
	for k, x := range all {
		out[k] = part(x[at*points : (at+1)*points])
	}
	return out
}

// WholeField is the part of a field that is all of it.
func WholeField(field []float32) []float32 { return field }

// Targets names what a model predicts.
func (m *Model) Targets() string {
	k, d := &m.Task, len(m.Task.Features.Axes.Levels)
	var out []string
	for at := range k.Score {
		if t := k.Targets[at/d]; k.Score[at] != 0 && t.Lead == k.Targets[0].Lead {
			out = append(out, t.Variable+" at "+k.Features.Axes.Levels[at%d].Of(t.Variable).String())
		}
	}
	return strings.Join(out, ", ") + " at " + LeadWords(k.TargetLeads())
}

// FamilyOf is the distribution of a variable of which the model gives the parameters.
//
// Errors: exit 64 for variables that are not in the vocabulary, unless the family has only
// positive values, and for those with another bound, since a distribution may reach where none
// of their values can be.
func (m *Model) FamilyOf(variable string) (*dist.Family, error) {
	v, known := ensemble.VariableNamed(variable)
	if _, ok := v.NonNegative(); !ok && (known || !m.Family.Positive) {
		return nil, &exit.Error{Code: exit.Usage, What: "no quantiles, probabilities and members of " + variable, At: "products",
			Why: "the model predicts a distribution (" + m.Family.Name + "), and nobody has said what values " + variable + " can have", Fix: "ask for mean and spread only"}
	}
	return m.DistributionOf(variable), nil
}
