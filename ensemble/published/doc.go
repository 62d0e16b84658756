// Package published reads the fields of finished products for those who look at them: the page
// (package desk) and queries for values (package edr). It keeps the files of the initialisations
// that were read last open and indexed.
package published
