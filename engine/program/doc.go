// Package program describes a compiled step as a program graph: a directed graph with parallel edges, whose vertices are instructions, variables and
// constants, and whose edges are control, data and call flow, each with a position.
//
//	g := program.Of(plan.Graph(), order)
//	err := g.WriteJSON(w)
//
// An instruction is an operation of the plan, a variable its result, an input or a state, a constant a parameter or a stored value.
// Control edges follow the order of execution. Data edges lead from an operand to the instruction that reads it, with the number of the
// operand as position, and from an instruction to its result. A chain of fused elementwise operations is a function: its links are
// instructions of their own, which a call edge enters and another leaves. Operations that only change a shape run nothing: their results are
// their operands.
//
// Source: Cummins, Fisches, Ben-Nun, Hoefler, O'Boyle and Leather 2021, ProGraML, arXiv:2003.10536, section 3.
package program
