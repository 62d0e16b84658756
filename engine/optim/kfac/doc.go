// Package kfac preconditions gradients with Kronecker-factored approximations of the Fisher
// matrix (K-FAC).
//
// The Fisher block of a layer with weights W [rows × columns] is approximated by A ⊗ G: A is
// the second moment of the layer's inputs, G that of the gradients of its results. Solving with
// it needs two inverses of the size of the layer's sides:
//
//	U = G′⁻¹ ∇W A′⁻¹,   A′ = A + π√λ I,   G′ = G + (√λ/π) I,   π² = (tr A/columns) / (tr G/rows)
//
// The compiled training step computes A and G (pass add-factors): it is the empirical Fisher
// matrix, of the gradients of the loss itself. A loss such as the CRPS has no simple
// distribution of results from which gradients could be sampled.
//
// A Preconditioner keeps running averages of the factors and their inverses. Update takes new
// factors, every few steps; Apply preconditions the gradient of every step with the newest
// inverses. Package optim makes steps of the result. Begin, Invert and Publish divide an update, so that its inversions
// run in idle times of later steps. Ranks share the inversions of the same factors, or own different layers.
//
// Source: Martens and Grosse 2015, arXiv:1503.05671; Grosse and Martens 2016, arXiv:1602.01407
// (convolutions); Osawa et al. 2019, arXiv:1811.12019 (distribution over ranks, stale factors).
package kfac
