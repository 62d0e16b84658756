//go:build long

package rundir

import "testing"

func TestLongFault24(t *testing.T) { failPower(t, 600) }
