// Package setuptest compares the programs that tests, tools and scripts look up on
// the path with those that scripts/setup.sh installs, because a fresh machine has
// no others.
package setuptest
