// Package setuptest holds the programs that tests, tools and scripts look up on the path against what
// scripts/setup.sh installs: a fresh machine has nothing else.
package setuptest
