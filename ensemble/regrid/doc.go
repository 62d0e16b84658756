// Package regrid interpolates fields from one grid to another: bilinear,
// first-order conservative and nearest neighbour interpolation. The weights of two
// grids are computed once, as a sparse matrix, and applied to any number of fields.
//
// Sources: Jones 1999, Mon. Wea. Rev. 127, 2204 (conservative remapping with areas
// of overlap, and the normalisation of cells that are partly covered); Snyder 1987,
// USGS Professional Paper 1395 (gnomonic and cylindrical equal-area projections).
package regrid
