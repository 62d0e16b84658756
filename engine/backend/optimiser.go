package backend

// Rule is the update rule of an optimiser.
type Rule int32

// The update rules; kern.OptStep has their formulas.
const (
	RuleSGD Rule = iota
	RuleNesterov
	RuleAdam
	RuleAdamW
	RuleLARS
	RuleLAMB
)

// ParamRange is a range of the flat parameters within one tensor: elements Lo to Hi.
// Its gradients and moments begin at At. Ranges of a tensor follow each other, tensors
// in their order.
type ParamRange struct{ Lo, Hi, Tensor, At int }

// ParamTensor holds the settings of one parameter tensor: its weight decay, and whether
// it is Plain, that is, updated by LARS and LAMB without a trust ratio.
type ParamTensor struct {
	Decay float64
	Plain bool
}

// OptimArrays are the arrays of an optimiser in the memory of the device. Parameters W
// and their exponential moving average E, if any, have one layout. Gradients G, first
// moments M and, if the rule has them, second moments V hold the elements of the ranges
// only.
type OptimArrays struct{ W, G, M, V, E []float32 }

// OptimConstants are the constants of one step: learning rate; β₁, β₂ and ε of Adam;
// momentum; the factor of gradients; the bound of the gradient norm (0: no clipping);
// the weight of new parameters in their moving average; the bias corrections 1−β₁ᵗ and
// 1−β₂ᵗ; the trust coefficient of LARS.
type OptimConstants struct {
	Rate, Beta1, Beta2, Eps, Momentum, GradScale, ClipNorm, EMAWeight, Correct1, Correct2, TrustCoefficient float64
}

// Updater is implemented by backends that update parameters in their own memory. Its
// methods are called within Do, but for Do itself.
type Updater interface {
	Remote
	Do(f func() error) error
	// Clear fills x with zeros.
	Clear(x []float32) error
	// NewOptimiser prepares an optimiser with an update rule for the given ranges.
	//
	// Errors: the memory of the device does not suffice.
	NewOptimiser(rule Rule, pieces []ParamRange, tensors []ParamTensor, a OptimArrays) (Optimiser, error)
	// NewMask allocates a mask of n parameters.
	//
	// Errors: the memory of the device does not suffice.
	NewMask(n int) (ParamMask, error)
	// PrepareAccumulate returns a function that adds weight·g to sum, for gradient
	// accumulation. weight is one number in the memory of the device.
	PrepareAccumulate(sum, g, weight []float32) (add func() error, err error)
}

// Optimiser updates flat parameters on a device. Its work is enqueued as that of
// kernels and can be recorded; what differs between steps is set by SetConstants.
// Methods are called within Do.
type Optimiser interface {
	// SetConstants sets the constants of the steps that follow. It waits for earlier
	// steps, which may still read the old ones. It cannot be recorded.
	SetConstants(c OptimConstants) error
	// Step updates the parameters once. If the gradient is not finite, nothing changes;
	// see GradNorm.
	Step() error
	// GradNorm waits for the last step and returns the norm of its gradient before
	// clipping, and whether the gradient was finite.
	GradNorm() (norm float64, finite bool, err error)
	// Finite waits and reports whether the gradient of the next step is finite.
	Finite() (bool, error)
	// PrepareMask returns a function that sets x, laid out as the moments, to 0 where the
	// mask is false.
	PrepareMask(x []float32, m ParamMask) (mask func() error, err error)
	// Close frees the memory of the optimiser.
	Close() error
}

// ParamMask marks the parameters that are kept (not pruned), in the memory of the
// device.
type ParamMask interface {
	// Set sets the mask. It waits for earlier steps, which may still read the old one.
	Set(keep []bool) error
}
