package ensemble

// Field is one variable at one key on a grid, in SI units and normal order.
//
// Shape: Values [NY*NX], row by row as in Grid.
// Missing: NaN.
type Field struct {
	Key    Key
	Unit   string // UDUNITS spelling, SI: "K", "m", "m s-1"
	Grid   *Grid
	Values []float32
}
