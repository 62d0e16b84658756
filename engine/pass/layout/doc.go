// Package layout chooses the layout of every value of a graph of operators such
// that the total cost is minimal. The cost of an operator depends on the
// layouts that it reads and writes. Transposes between layouts have costs of
// their own.
//
// Network states the problem in terms of operators and values. Problem is the
// general form: discrete variables with a few labels each, and costs of single
// labels and of pairs of labels. It is solved exactly by variable elimination.
// Each step eliminates the variable whose neighbours have the fewest joint
// labels. The work grows with the width of the graph, not with its length: a
// chain costs as much as a shortest path.
//
// Source: Ivanov et al. 2021, arXiv:2007.00072, section 5 (layouts as a
// shortest path); Bertelè and Brioschi 1972, Nonserial Dynamic Programming
// (elimination); Dechter 1999, doi:10.1016/S0004-3702(99)00059-4 (bucket
// elimination).
package layout
