// Package run holds the jobs of the program as library calls: what the command
// line, notebooks and other programs use. Each job takes options whose zero value
// is the documented default and returns an error whose exit code package exit
// knows; none of them exits, and none prints but to the writer it is given.
package run
