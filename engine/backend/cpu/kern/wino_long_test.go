//go:build long && cgo && linux

package kern

import "testing"

func all(i, set int) bool { return true }

func TestLongWinogradAgreesWithPlainSums(t *testing.T)       { winogradAgrees(t, all) }
func TestLongSparseWinogradAgreesWithPlainSums(t *testing.T) { sparseWinogradAgrees(t, all) }
