package backend

// Rule names the formula of an optimiser.
type Rule int32

// The rules.
const (
	RuleSGD Rule = iota
	RuleNesterov
	RuleAdam
	RuleAdamW
	RuleLARS
	RuleLAMB
)

// ParamRange is a run of flat parameters that lies in one tensor: elements Lo up to Hi, whose
// gradients and moments begin at At. Those of a tensor follow each other, tensors in their order.
type ParamRange struct{ Lo, Hi, Tensor, At int }

// ParamTensor is one parameter: the decay of its weights, and whether it is Plain, which LARS and
// LAMB move without a ratio.
type ParamTensor struct {
	Decay float64
	Plain bool
}

// OptimArrays lie in the memory of the device: parameters W and in the same layout, where there is
// one, their running average E; and of pieces the gradients G, the first moments M, and where the rule
// has them the second V.
type OptimArrays struct{ W, G, M, V, E []float32 }

// OptimConstants are those of one step: the rate, what gradients are multiplied by, the bound of their
// norm (0: none), the share of the parameters in their average, and 1−βᵗ.
type OptimConstants struct {
	Rate, Beta1, Beta2, Eps, Momentum, GradScale, ClipNorm, EMAWeight, Correct1, Correct2, TrustCoefficient float64
}

// Updater is what a backend is beside if it moves parameters in its own memory. But for Do, the methods are
// called within Do.
type Updater interface {
	Remote
	Do(f func() error) error
	// Clear fills with zeros.
	Clear(x []float32) error
	// NewOptimiser prepares the sweeps of a rule over pieces.
	//
	// Errors: too little memory.
	NewOptimiser(rule Rule, pieces []ParamRange, tensors []ParamTensor, a OptimArrays) (Optimiser, error)
	// NewMask makes room for a mask of n parameters.
	//
	// Errors: too little memory.
	NewMask(n int) (ParamMask, error)
	// PrepareAccumulate makes what adds g, times a number that lies on the device, to sum.
	PrepareAccumulate(sum, g, weight []float32) (add func() error, err error)
}

// Optimiser is the optimiser of flat parameters on a device. All its work is asked for as that of kernels
// is, and may be recorded: what differs between steps is given by Set. It is used within Do.
type Optimiser interface {
	// SetConstants gives the constants of the steps that follow. It waits: those before are still being read otherwise.
	// It is not part of a recording.
	SetConstants(c OptimConstants) error
	// Step moves the parameters once. A gradient that is not finite changes nothing; see Found.
	Step() error
	// GradNorm waits, and gives the norm of the gradient of the last step before clipping, and whether it was finite.
	GradNorm() (norm float64, finite bool, err error)
	// Finite reports whether the gradient is finite that the next step moves along. It waits.
	Finite() (bool, error)
	// PrepareMask makes what sets x, which lies as the moments do, to 0 where a mask of the same device does not keep
	// the parameter.
	PrepareMask(x []float32, m ParamMask) (mask func() error, err error)
	// Close gives back the memory of its own.
	Close() error
}

// ParamMask is which parameters are kept, on a device.
type ParamMask interface {
	// Set gives the parameters that are kept from now on. It waits: those before are still being read otherwise.
	Set(keep []bool) error
}
