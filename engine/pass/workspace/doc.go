// Package workspace divides convolutions into pieces that run one after the
// other, so that fast algorithms fit into a limited workspace: pieces of the
// batch, or slabs of latitude rows. It decides from measured times alone and
// knows no graph.
//
// A Kernel (a layer in one direction) has a size, its number of samples or of
// rows, and measured micro-configurations: piece size, algorithm, time, and
// workspace. A Config divides the whole size into such pieces. Its time is the
// sum over the pieces and its workspace the largest of them, since pieces share
// one buffer.
//
//   - Kernel.Front: the configurations that no other beats (the desirable set).
//   - Kernel.Reuse: the best one within a limit of its own (workspace reuse, WR).
//   - Divide: one limit for all kernels together (workspace division, WD).
//   - Slabs: the rows that each piece reads and writes.
//
// A workspace fits if it is less than or equal to the limit. Times are integer
// nanoseconds, so sums are exact and equal times are equal.
//
// # Ties
//
// Every answer is unique. A configuration is better than another if the first
// of these that differs is less:
//
//  1. time
//  2. workspace
//  3. number of pieces: where dividing gains nothing a kernel stays whole
//  4. the sizes of the pieces, largest first, where the larger size at the
//     first difference is the better one
//
// Within one size the algorithm is the fastest that fits; of equally fast ones
// that with less workspace, then the one that Kernel.Micros lists first. Divide
// compares sums over kernels by 1 to 3, then prefers less workspace for the
// kernels listed first.
//
// Source: Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
package workspace
