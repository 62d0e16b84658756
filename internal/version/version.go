// Package version says which build of the program this is.
package version

// Version is what `git describe` said when the program was built by make, and
// "devel" in a build made by hand.
var Version = "devel"
