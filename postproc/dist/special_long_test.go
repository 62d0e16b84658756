//go:build long

package dist

import "testing"

func TestLongSpecialParameters(t *testing.T) { specialParameters(t, 1) }
