// Package store keeps an archive of forecasts and analyses as a training reads it: decoded, complete, in one order, with checksums.
//
// A store is a folder. A start with all its fields, and the analyses it is compared
// with, is one run of bytes of the same length and inner order as every other, so that
// places are computed and not looked up. Rows of the grid lie in bands, one after the
// other, and a band holds all fields: ranks that share a start by latitude each read
// one piece of the file. docs/formats/store.md draws the files.
//
// Write makes a store and, after an interruption, goes on with it. Its result does not
// depend on interruptions, on the number of workers or on the memory they have. Open
// and Store.Read read it.
package store
