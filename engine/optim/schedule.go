package optim

import "math"

// Schedule gives the learning rate of a step, counted from 0.
type Schedule interface{ Rate(step uint64) float64 }

// Constant is one rate for all steps.
type Constant float64

// Rate is the constant.
func (c Constant) Rate(uint64) float64 { return float64(c) }

// Triangular2 rises and falls between Base and Max, and halves the height of
// the triangle after each cycle of 2·Half steps:
//
//	c = ⌊1 + n/2s⌋   x = |n/s − 2c + 1|   rate = base + (max − base)·max(0, 1−x)/2^(c−1)
//
// Source: Smith 2017, doi:10.1109/WACV.2017.58; torch's CyclicLR "triangular2".
type Triangular2 struct {
	Base, Max float64
	HalfCycle uint64 // steps of a half cycle; 0 means 1
}

// Rate is the rate of step n.
func (t Triangular2) Rate(n uint64) float64 {
	at := float64(n) / float64(max(t.HalfCycle, 1))
	c := math.Floor(1 + at/2)
	x := math.Abs(at - 2*c + 1)
	return t.Base + (t.Max-t.Base)*math.Max(0, 1-x)*math.Exp2(1-c)
}

// Cosine stays at Max for Hold steps, which are those of a Warmup around it, falls
// along half a cosine to Min at step Total, and stays there:
//
//	rate = min + (max − min)·(1 + cos(π(n − hold)/(total − hold)))/2
//
// Source: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
type Cosine struct {
	Max, Min    float64
	Hold, Total uint64
}

// Rate is the rate of step n.
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

// Warmup rises linearly over Steps to what the schedule gives, from the share From
// of it:
//
//	rate = schedule·(from + (1 − from)·(n + 1)/steps)
//
// A rate that was raised k times for a larger batch starts with From 1/k where it
// was before.
// Source: Goyal et al. 2017, arXiv:1706.02677.
type Warmup struct {
	Schedule
	Steps uint64
	From  float64
}

// Rate is the rate of step n.
func (w Warmup) Rate(n uint64) float64 {
	r := w.Schedule.Rate(n)
	if n < w.Steps {
		r *= w.From + (1-w.From)*float64(n+1)/float64(w.Steps)
	}
	return r
}

// BatchScaling is how a learning rate follows the size of the batch.
type BatchScaling string

// The scalings.
const (
	NoScaling     BatchScaling = "none"
	LinearScaling BatchScaling = "linear" // Goyal et al. 2017, arXiv:1706.02677
	SqrtScaling   BatchScaling = "sqrt"   // for methods like Adam; Krizhevsky 2014, arXiv:1404.5997
)

// Factor is what the rate of a batch is multiplied by for one that is k times as
// large.
func (s BatchScaling) Factor(k float64) float64 {
	switch s {
	case LinearScaling:
		return k
	case SqrtScaling:
		return math.Sqrt(k)
	}
	return 1
}

// Plateau lowers the rate by Factor when the value observed (the loss on
// validation dates) has not fallen by more than Threshold, relatively, for more
// than Patience observations.
//
// Source: the rule of torch.optim.lr_scheduler.ReduceLROnPlateau, mode min.
type Plateau struct {
	Initial, Min float64
	Factor       float64 // 0 means 0.1
	Threshold    float64
	Patience     int
	Cooldown     int // observations after a lowering that do not count

	State PlateauState
}

// PlateauState is what a checkpoint must keep of a Plateau.
type PlateauState struct {
	Observed     bool    `json:"observed"`      // whether anything has been observed
	Best         float64 `json:"best"`          // lowest value so far
	BadCount     int     `json:"bad_count"`     // observations without gain
	CooldownLeft int     `json:"cooldown_left"` // observations left to ignore
	Lowered      int     `json:"lowered"`       // times the rate was lowered
}

// Rate is the present rate; it changes with Observe only.
func (p *Plateau) Rate(uint64) float64 {
	f := p.Factor
	if f == 0 {
		f = 0.1
	}
	return math.Max(p.Initial*math.Pow(f, float64(p.State.Lowered)), p.Min)
}

// Observe takes note of a value and tells whether the rate was lowered. NaN is
// no gain.
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
