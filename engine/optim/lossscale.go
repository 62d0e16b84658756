package optim

// Constants of the loss scale, those of torch.amp.GradScaler with bounds. The scale is a factor
// without unit; growthInterval counts steps.
const (
	initialLossScale = 1 << 16
	maxLossScale     = 1 << 24
	minLossScale     = 1
	growthInterval   = 2000
)

// LossScale is the factor by which the loss is multiplied when gradients are stored in float16.
// Without it, small gradients underflow to 0. The scale starts at 2¹⁶. A step whose gradient is not
// finite halves it; 2000 consecutive finite steps double it, up to 2²⁴.
//
// LossScale is part of a checkpoint. The zero value belongs to a training without loss scaling.
//
// Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2; the constants of
// torch.amp.GradScaler, with bounds.
type LossScale struct {
	Scale     float64 `json:"scale"`
	GoodSteps int     `json:"good_steps"` // consecutive steps with finite gradients since the last change of Scale
	Skipped   uint64  `json:"skipped"`    // steps skipped because a gradient was not finite, in total
}

// NewLossScale returns the loss scale at the start of a training, 2¹⁶.
func NewLossScale() LossScale { return LossScale{Scale: initialLossScale} }

// CountStep counts a step with a finite gradient and reports whether Scale has changed.
func (l *LossScale) CountStep() (changed bool) {
	if l.GoodSteps++; l.GoodSteps < growthInterval || l.Scale >= maxLossScale {
		return false
	}
	l.Scale, l.GoodSteps = 2*l.Scale, 0
	return true
}

// CountSkip counts a skipped step, whose gradient was not finite, and halves the scale. ok is false
// if the scale is already 1: then the loss itself is not finite, and a smaller scale cannot help.
func (l *LossScale) CountSkip() (ok bool) {
	if l.Scale <= minLossScale {
		return false
	}
	l.Scale, l.GoodSteps = l.Scale/2, 0
	l.Skipped++
	return true
}
