// Package ensemble is the domain: fields of weather variables on grids, the
// members, times and levels that name them, catalogues of what an input holds,
// and what is made of it for learning: splits of dates, normalisers, features.
//
// Inside the program units are SI, longitudes ascend from 0 towards 360 degrees
// east, latitudes run north to south, values are float32 with NaN for missing.
// The readers bring foreign conventions into this form and keep, on the Grid,
// what is needed to go back. The package imports nothing else of the program.
package ensemble
