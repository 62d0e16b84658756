// Package ensemble defines the domain types: fields of weather variables on grids, the
// members, times and levels that identify them, catalogues of the content of an input, and
// what is derived for learning: splits of dates, normalisers, features.
//
// Conventions inside the program: SI units; longitudes ascend from 0 towards 360° east;
// latitudes run from north to south; values are float32, NaN if missing. Readers convert
// other conventions to these. The Grid records what is needed to convert back. The package
// imports nothing else of the program but internal packages.
package ensemble
