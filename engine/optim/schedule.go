package optim

import "math"

// Schedule gives the learning rate of each step. Steps count from 0.
type Schedule interface{ Rate(step uint64) float64 }

// Constant is the same learning rate for all steps.
type Constant float64

// Rate returns the constant.
func (c Constant) Rate(uint64) float64 { return float64(c) }

// Triangular2 is a cyclical learning rate: it rises and falls linearly between Base and Max, and
// halves the amplitude after each cycle of 2·HalfCycle steps:
//
//	c = ⌊1 + n/2s⌋   x = |n/s − 2c + 1|   rate = base + (max − base)·max(0, 1−x)/2^(c−1)
//
// with n the step and s = HalfCycle.
//
// Source: Smith 2017, doi:10.1109/WACV.2017.58; torch.optim.lr_scheduler.CyclicLR, mode
// "triangular2".
type Triangular2 struct {
	Base, Max float64
	HalfCycle uint64 // steps of half a cycle; 0 means 1
}

// Rate returns the learning rate of step n.
func (t Triangular2) Rate(n uint64) float64 {
	at := float64(n) / float64(max(t.HalfCycle, 1))
	c := math.Floor(1 + at/2)
	x := math.Abs(at - 2*c + 1)
	return t.Base + (t.Max-t.Base)*math.Max(0, 1-x)*math.Exp2(1-c)
}

// Cosine keeps the rate at Max for Hold steps, lets it fall along half a cosine to Min at step
// Total, and keeps it there:
//
//	rate = min + (max − min)·(1 + cos(π(n − hold)/(total − hold)))/2
//
// Hold is the number of warm-up steps if the schedule is inside a Warmup.
//
// Source: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
type Cosine struct {
	Max, Min    float64
	Hold, Total uint64
}

// Rate returns the learning rate of step n.
func (c Cosine) Rate(n uint64) float64 {
	if n < c.Hold {
		return c.Max
	}
	if n >= c.Total {
		return c.Min
	}
	t := float64(n-c.Hold) / float64(c.Total-c.Hold)
	return c.Min + (c.Max-c.Min)*(1+math.Cos(math.Pi*t))/2
}

// Warmup multiplies the rate of another schedule by a factor that rises linearly from From to 1
// over Steps:
//
//	rate = schedule·(from + (1 − from)·(n + 1)/steps)
//
// If the rate was raised by a factor k for a larger batch, From = 1/k starts with the rate before
// the increase.
//
// Source: Goyal et al. 2017, arXiv:1706.02677.
type Warmup struct {
	Schedule
	Steps uint64  // length of the warm-up; 0 disables it
	From  float64 // initial factor, 0 to 1
}

// Rate returns the learning rate of step n.
func (w Warmup) Rate(n uint64) float64 {
	r := w.Schedule.Rate(n)
	if n < w.Steps {
		r *= w.From + (1-w.From)*float64(n+1)/float64(w.Steps)
	}
	return r
}

// BatchScaling is the rule by which the learning rate follows the batch size.
type BatchScaling string

// The rules.
const (
	NoScaling     BatchScaling = "none"
	LinearScaling BatchScaling = "linear" // rate ∝ batch size; Goyal et al. 2017, arXiv:1706.02677
	SqrtScaling   BatchScaling = "sqrt"   // rate ∝ √(batch size), for Adam and similar; Krizhevsky 2014, arXiv:1404.5997
)

// Factor returns the factor for the learning rate if the batch size grows by a factor k.
func (s BatchScaling) Factor(k float64) float64 {
	switch s {
	case LinearScaling:
		return k
	case SqrtScaling:
		return math.Sqrt(k)
	}
	return 1
}

// Plateau multiplies the rate by Factor when the observed value has stopped improving. The value is
// the loss on validation dates. An improvement is a relative decrease by more than Threshold; the
// rate is lowered after more than Patience observations without one.
//
// Source: the rule of torch.optim.lr_scheduler.ReduceLROnPlateau, mode "min", threshold_mode "rel".
type Plateau struct {
	Initial, Min float64 // initial and smallest learning rate
	Factor       float64 // 0 means 0.1
	Threshold    float64 // relative; 0 counts any decrease
	Patience     int     // observations
	Cooldown     int     // observations after a reduction that do not count

	State PlateauState
}

// PlateauState is the state of a Plateau in a checkpoint.
type PlateauState struct {
	Observed     bool    `json:"observed"`      // whether a value has been observed
	Best         float64 `json:"best"`          // lowest value so far
	BadCount     int     `json:"bad_count"`     // observations since the last improvement
	CooldownLeft int     `json:"cooldown_left"` // remaining observations of the cooldown
	Lowered      int     `json:"lowered"`       // number of reductions
}

// Forget drops the best value and what was counted since. The rate stays. It is for values that can no longer be
// compared with earlier ones.
func (s *PlateauState) Forget() { *s = PlateauState{Lowered: s.Lowered} }

// Rate returns the current rate, Initial·Factorⁿ after n reductions, at least Min. It changes in
// Observe only.
func (p *Plateau) Rate(uint64) float64 {
	f := p.Factor
	if f == 0 {
		f = 0.1
	}
	return math.Max(p.Initial*math.Pow(f, float64(p.State.Lowered)), p.Min)
}

// Observe records a value and reports whether the rate was lowered. NaN counts as no improvement.
func (p *Plateau) Observe(value float64) bool {
	s := &p.State
	if !s.Observed && !math.IsNaN(value) || value < s.Best*(1-p.Threshold) {
		s.Observed, s.Best, s.BadCount = true, value, 0
	} else {
		s.BadCount++
	}
	if s.CooldownLeft > 0 {
		s.CooldownLeft--
		s.BadCount = 0
	}
	if s.BadCount <= p.Patience {
		return false
	}
	s.CooldownLeft, s.BadCount = p.Cooldown, 0
	before := p.Rate(0)
	s.Lowered++
	return p.Rate(0) < before
}
