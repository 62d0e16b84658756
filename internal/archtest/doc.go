// Package archtest holds the rules of who may import whom, each with its reason, and
// the test that compares them with the code.
//
// The rules are data: rules.go. A rule that names a package which no longer exists
// fails the test too, so that the table stays true.
package archtest
