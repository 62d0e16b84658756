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

// SweepPiece is a run of flat parameters that lies in one tensor: elements Lo up to Hi, whose
// gradients and moments begin at At. Those of a tensor follow each other, tensors in their order.
type SweepPiece struct{ Lo, Hi, Tensor, At int }

// SweepTensor is one parameter: the decay of its weights, and whether it is Plain, which LARS and
// LAMB move without a ratio.
type SweepTensor struct {
	Decay float64
	Plain bool
}

// SweepArrays lie in the memory of the device: parameters W and in the same layout, where there is
// one, their running average E; and of pieces the gradients G, the first moments M, and where the rule
// has them the second V.
type SweepArrays struct{ W, G, M, V, E []float32 }

// SweepConstants are those of one step: the rate, what gradients are multiplied by, the bound of their
// norm (0: none), the share of the parameters in their average, and 1−βᵗ.
type SweepConstants struct {
	Rate, Beta1, Beta2, Eps, Momentum, Factor, Clip, Blend, Correct1, Correct2, Trust float64
}

// Updater is what a backend is beside if it moves parameters in its own memory. But for Do, the methods are
// called within Do.
type Updater interface {
	Remote
	Do(f func() error) error
	// Clear fills with zeros.
	Clear(x []float32) error
	// NewSweep prepares the sweeps of a rule over pieces.
	//
	// Errors: too little memory.
	NewSweep(rule Rule, pieces []SweepPiece, tensors []SweepTensor, a SweepArrays) (Sweep, error)
	// NewMask makes room for a mask of n parameters.
	//
	// Errors: too little memory.
	NewMask(n int) (SweepMask, error)
	// Gathered makes what adds g, times a number that lies on the device, to sum.
	Gathered(sum, g, weight []float32) (add func() error, err error)
}

// Sweep is the optimiser of flat parameters on a device. All its work is asked for as that of kernels
// is, and may be recorded: what differs between steps is given by Set. It is used within Do.
type Sweep interface {
	// Set gives the constants of the steps that follow. It waits: those before are still being read otherwise.
	// It is not part of a recording.
	Set(c SweepConstants) error
	// Step moves the parameters once. A gradient that is not finite changes nothing; see Found.
	Step() error
	// Found waits, and gives the norm of the gradient of the last step before clipping, and whether it was finite.
	Found() (norm float64, finite bool, err error)
	// Finite reports whether the gradient is finite that the next step moves along. It waits.
	Finite() (bool, error)
	// Masked makes what sets x, which lies as the moments do, to 0 where a mask of the same device does not keep
	// the parameter.
	Masked(x []float32, m SweepMask) (mask func() error, err error)
	// Close gives back the memory of its own.
	Close() error
}

// SweepMask is which parameters are kept, on a device.
type SweepMask interface {
	// Set gives the parameters that are kept from now on. It waits: those before are still being read otherwise.
	Set(keep []bool) error
}
