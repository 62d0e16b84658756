//go:build long

package comm_test

import "testing"

func TestLongPrograms(t *testing.T)       { programs(t, 64) }
func TestLongHostedPrograms(t *testing.T) { hostedPrograms(t, 32) }
