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
	Half      uint64 // steps of a half cycle; 0 means 1
}

// Rate is the rate of step n.
func (t Triangular2) Rate(n uint64) float64 {
	at := float64(n) / float64(max(t.Half, 1))
	c := math.Floor(1 + at/2)
	x := math.Abs(at - 2*c + 1)
	return t.Base + (t.Max-t.Base)*math.Max(0, 1-x)*math.Exp2(1-c)
}

// Cosine rises linearly to Max over Warmup steps, falls along half a cosine to
// Min at step Total, and stays there:
//
//	rate = min + (max − min)·(1 + cos(π(n − warmup)/(total − warmup)))/2
//
// Source: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.
type Cosine struct {
	Max, Min      float64
	Warmup, Total uint64
}

// Rate is the rate of step n.
func (c Cosine) Rate(n uint64) float64 {
	if n < c.Warmup {
		return c.Max * float64(n+1) / float64(c.Warmup)
	}
	if n >= c.Total {
		return c.Min
	}
	t := float64(n-c.Warmup) / float64(c.Total-c.Warmup)
	return c.Min + (c.Max-c.Min)*(1+math.Cos(math.Pi*t))/2
}

// Warmup rises linearly over Steps to what the schedule gives.
type Warmup struct {
	Schedule
	Steps uint64
}

// Rate is the rate of step n.
func (w Warmup) Rate(n uint64) float64 {
	r := w.Schedule.Rate(n)
	if n < w.Steps {
		r *= float64(n+1) / float64(w.Steps)
	}
	return r
}

// Plateau lowers the rate by Factor when the value observed (the loss on
// validation dates) has not fallen by more than Threshold, relatively, for more
// than Patience observations.
//
// Source: the rule of torch.optim.lr_scheduler.ReduceLROnPlateau, mode min.
type Plateau struct {
	Start, Min float64
	Factor     float64 // 0 means 0.1
	Threshold  float64
	Patience   int
	Cooldown   int // observations after a lowering that do not count

	State PlateauState
}

// PlateauState is what a checkpoint must keep of a Plateau.
type PlateauState struct {
	Seen    bool    `json:"seen"`    // whether anything has been observed
	Best    float64 `json:"best"`    // lowest value so far
	Bad     int     `json:"bad"`     // observations without gain
	Cool    int     `json:"cool"`    // observations left to ignore
	Lowered int     `json:"lowered"` // times the rate was lowered
}

// Rate is the present rate; it changes with Observe only.
func (p *Plateau) Rate(uint64) float64 {
	f := p.Factor
	if f == 0 {
		f = 0.1
	}
	return math.Max(p.Start*math.Pow(f, float64(p.State.Lowered)), p.Min)
}

// Observe takes note of a value and tells whether the rate was lowered. NaN is
// no gain.
func (p *Plateau) Observe(value float64) bool {
	s := &p.State
	if !s.Seen && !math.IsNaN(value) || value < s.Best*(1-p.Threshold) {
		s.Seen, s.Best, s.Bad = true, value, 0
	} else {
		s.Bad++
	}
	if s.Cool > 0 {
		s.Cool--
		s.Bad = 0
	}
	if s.Bad <= p.Patience {
		return false
	}
	s.Cool, s.Bad = p.Cooldown, 0
	before := p.Rate(0)
	s.Lowered++
	return p.Rate(0) < before
}
