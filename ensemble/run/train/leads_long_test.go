//go:build long

package train

import "testing"

func TestLongNetworksOverTime(t *testing.T) { networksOverTime(t, func(int) bool { return true }) }
