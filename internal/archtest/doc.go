// Package archtest checks the import rules of the module and limits of size, each
// with its reason.
//
// The rules are data: layers in rules.go, the exact imports of each package in
// rows.go, limits in limits.go. A rule for a package that no longer exists fails
// the test, so that the tables stay correct.
package archtest
