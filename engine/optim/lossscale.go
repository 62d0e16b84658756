package optim

// Constants of LossScale.
const (
	initialLossScale = 1 << 16
	maxLossScale     = 1 << 24
	minLossScale     = 1
	growthInterval   = 2000
)

// LossScale is what the loss is multiplied by where its gradients are stored in float16, whose
// smallest values would be 0 otherwise: as much as does not overflow. It begins with 2¹⁶, is halved
// when a gradient is not finite, and doubled behind 2000 steps in turn whose gradients were. It is
// part of a checkpoint. The zero value is that of a training without.
//
// Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2; the constants of
// torch.amp.GradScaler, with a bound.
type LossScale struct {
	Scale     float64 `json:"scale"`
	GoodSteps int     `json:"good_steps"` // steps taken since it changed last
	Skipped   uint64  `json:"skipped"`    // steps that were not taken
}

// NewLossScale is that of a training that begins.
func NewLossScale() LossScale { return LossScale{Scale: initialLossScale} }

// CountStep counts a step that was taken, and tells whether the scale of the next one is another.
func (l *LossScale) CountStep() (changed bool) {
	if l.GoodSteps++; l.GoodSteps < growthInterval || l.Scale >= maxLossScale {
		return false
	}
	l.Scale, l.GoodSteps = 2*l.Scale, 0
	return true
}

// CountSkip counts a step whose gradient is not finite, and lowers the scale; ok is false where it
// is not the scale's fault.
func (l *LossScale) CountSkip() (ok bool) {
	if l.Scale <= minLossScale {
		return false
	}
	l.Scale, l.GoodSteps = l.Scale/2, 0
	l.Skipped++
	return true
}
