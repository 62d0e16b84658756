// Package dist holds probability distributions and their continuous ranked
// probability scores (CRPS) with gradients: the one place where each of these
// formulas is written. Losses, scores and fits of the whole program call it.
//
// The CRPS of a forecast distribution F against one value y is
//
//	∫ ( F(x) − 1[x ≥ y] )² dx  =  E|X−y| − ½ E|X−X'|,   X, X' ~ F independent
//
// in the unit of the variable; lower is better. All functions work on float64
// scalars, allocate nothing and give NaN where an argument is NaN.
// The package imports nothing else of the program.
package dist
