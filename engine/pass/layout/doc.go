// Package layout chooses the layout of every value of a graph of operators such
// that the sum of all costs is least: the operators', which depend on the
// layouts that they read and write, and those of the transposes between them.
//
// Network states the question in terms of operators and values, Problem is the
// general form below it: variables with a few labels each, and costs of single
// labels and of pairs. The answer is exact, by elimination of one variable after
// the other, always the one whose neighbours have the fewest common states. The
// work grows with the width of the graph and not with its length: a chain costs
// what a shortest path costs.
//
// Source: Ivanov et al. 2021, arXiv:2007.00072, section 5 (layouts as a shortest
// path); Bertelè and Brioschi 1972, Nonserial Dynamic Programming (elimination);
// Dechter 1999, doi:10.1016/S0004-3702(99)00059-4.
package layout
