// Package workspace divides convolutions into pieces that run one after the
// other, so that fast algorithms fit a limited workspace: pieces of the batch,
// or slabs of latitude rows. It decides by measured times alone and is
// independent of graphs.
//
// A Kernel (a layer in one direction) has a size, its number of samples or of
// rows, and measured micro-configurations: piece size, algorithm, time and
// workspace. A Config divides the whole size into such pieces. Its time is the
// sum over the pieces. Its workspace is the largest of them, since pieces share
// one buffer.
//
//   - Kernel.Front: the Pareto front of configurations (the desirable set).
//   - Kernel.Reuse: the best configuration within a limit (workspace reuse,
//     WR).
//   - Divide: one limit for all kernels together (workspace division, WD).
//   - Slabs: the rows that each piece reads and writes.
//
// A workspace fits if it is at most the limit. Times are integer nanoseconds,
// so sums are exact and equal times compare equal.
//
// # Ties
//
// Every answer is unique. A configuration is better than another if the first
// of these that differs is less:
//
//  1. time
//  2. workspace
//  3. number of pieces: a kernel is divided only if that helps
//  4. the sizes of the pieces, largest first, where the larger size at the
//     first difference is the better one
//
// For one size the algorithm is the fastest that fits; of equally fast ones
// that with less workspace, then the first one in Kernel.Micros. Divide
// compares sums over kernels by 1 to 3, then prefers less workspace for the
// kernels listed first.
//
// Source: µ-cuDNN, Oyama, Ben-Nun, Hoefler, Matsuoka 2018, arXiv:1804.04806.
package workspace
