// Package dist implements probability distributions and their continuous ranked
// probability score (CRPS) with gradients. Losses, scores and fits of the whole program
// use these functions, so each formula is written once.
//
// The CRPS of a forecast distribution F for an observation y is
//
//	∫ ( F(x) − 1[x ≥ y] )² dx  =  E|X−y| − ½ E|X−X'|,   X, X' ~ F independent
//
// Unit: that of the variable. Better: lower. Functions operate on float64 scalars and do
// not allocate.
// Missing: NaN in an argument gives NaN.
// The package does not import other packages of the program.
package dist
