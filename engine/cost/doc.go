// Package cost predicts the time of a compiled step on another machine than this one.
//
// A Machine holds rates that `ensemble bench --machine` measures in half a minute: products, products of Winograd's form,
// elementwise work, copies within caches and memory, and the start of an operation. WorkOf counts what an operation of a plan
// does in these units. Its time is a sum
//
//	t = Σᵢ cᵢ·xᵢ,  xᵢ = work of kind i / rate of the machine for kind i,  cᵢ ≥ 0
//
// with coefficients for each kind of operation, which say how many times as long as at the measured rate this work takes. They are
// fitted by non-negative least squares to races.json, times of operations on several instruction sets and numbers of threads, and
// stored in coefficients.json. The time of a step is the sum over its operations.
//
// races.json also has the times of variants of kernels, as timing tables have them. FitVariants fits coefficients of expected times to
// them, by which package tune decides which variants of a new kernel it times, and in which order.
//
//	m, err := cost.ReadMachine("laptop.json")
//	s, err := m.Setup(4, "f32")
//	p := cost.Fitted().Predict(s, cost.StepOf(plan))
//
// Predictions order candidates and answer whether a machine is large enough. Nothing else depends on them.
//
// Source: Cummins et al. 2021, arXiv:2003.10536, for programs as graphs with costs; Williams, Waterman and Patterson 2009,
// doi:10.1145/1498765.1498785, for rates as features; Lawson and Hanson 1974, Solving Least Squares Problems, chapter 23.
package cost

//go:generate go test . -run "TestCoefficients|TestExpectations" -update
