// Package store keeps forecasts and analyses in the form in which training reads
// them: decoded, complete, in one order, with checksums.
//
// A store is a directory. Each initialisation, with all its fields and the analyses
// that it is compared with, is one range of bytes. All ranges have the same length
// and layout, so offsets are computed and not looked up. Rows of the grid are
// grouped in bands, one after the other, and a band holds all fields. Ranks that
// split an initialisation by latitude each read one contiguous range.
// docs/formats/store.md defines the files.
//
// Write creates a store and resumes it after an interruption. The result does not
// depend on interruptions, on the number of workers or on their memory. Open and
// Store.Read read it.
package store
