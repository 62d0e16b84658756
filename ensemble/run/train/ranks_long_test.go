//go:build long

package train_test

import "testing"

// Each of the many ranks opens the files before the mesh is compared with their grid.
func TestLongMeshesThatDoNotFit(t *testing.T) {
	meshesThatDoNotFit(t, []misfit{{"lat:33", "33 ranks along lat, but the fields have 32 rows", "lat:32"}})
}
