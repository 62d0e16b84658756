//go:build long

package main

import "testing"

func TestLongSite(t *testing.T) { walkSite(t, 1) }
