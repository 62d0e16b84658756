package ensemble

import "testing"

func TestWithin(t *testing.T) {
	whole := testGrid(8, 12, true)
	for _, w := range []Window{{Rows: [2]int{0, 8}, Cols: [2]int{0, 12}}, {Rows: [2]int{2, 5}, Cols: [2]int{3, 12}}, {Rows: [2]int{7, 8}, Cols: [2]int{0, 1}}} {
		if got, ok := whole.Subgrid(w).Within(whole, 1e-3); !ok || got != w {
			t.Errorf("part %v found at %v, %v", w, got, ok)
		}
	}
	shifted := *whole.Subgrid(Window{Rows: [2]int{2, 5}, Cols: [2]int{3, 9}})
	shifted.Lon = append([]float64(nil), shifted.Lon...)
	shifted.Lon[2] += 0.01
	other := *whole
	other.Kind = RegularGaussian
	for name, g := range map[string]*Grid{"a column is elsewhere": &shifted, "another kind": &other, "larger": testGrid(16, 24, true)} {
		if w, ok := g.Within(whole, 1e-3); ok {
			t.Errorf("%s: found at %v", name, w)
		}
	}
}
