package ensemble

import "math"

// Within finds g in a larger grid of the same kind: the window of whole whose points are those of g
// to within tol degrees. ok is false if there is none, and for grids with coordinates for
// every point.
func (g *Grid) Within(whole *Grid, tol float64) (w Window, ok bool) {
	if g.Kind != whole.Kind || g.Kind != RegularLatLon && g.Kind != RegularGaussian {
		return w, false
	}
	rows, ok1 := findRun(g.Lat, whole.Lat, tol)
	cols, ok2 := findRun(g.Lon, whole.Lon, tol)
	return Window{Rows: rows, Cols: cols}, ok1 && ok2
}

// findRun finds a sequence of numbers in a longer one: the half-open range at.
func findRun(part, all []float64, tol float64) (at [2]int, ok bool) {
	for i := 0; i+len(part) <= len(all) && len(part) > 0; i++ {
		same := true
		for k, x := range part {
			if same = math.Abs(all[i+k]-x) <= tol; !same {
				break
			}
		}
		if same {
			return [2]int{i, i + len(part)}, true
		}
	}
	return at, false
}
