package setup

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Sizes draws the sizes of fields in training steps (Mix & Match: Hoffer et al. 2019, arXiv:1908.08986). A nil Sizes
// draws whole fields.
//
// A smaller field is a window of the whole one. It keeps the scale of what filters see, and is cut from inputs, targets and weights
// of whole fields alike. A coarser field would have other statistics, spreads and scales.
type Sizes struct {
	All       []config.FieldSize // descending; the first is the whole field
	first     int                // of All that is drawn: 0, or 1 if the whole field is not listed
	multiple  int                // of first rows and columns, as those of pooled fields
	periodic  bool
	rowShares []float64 // cumulative shares of the rows in the area
	whole     float64   // part of the epochs at the end, with whole fields
}

// NewSizes returns the sizes of a configuration; nil without train.sizes.
//
// Errors: exit 64 for windows that do not fit into the field, with the nearest that does.
func NewSizes(c *config.TrainConfig, g *ensemble.Grid) (*Sizes, error) {
	t := &c.Train.Train
	if !t.Sizes.IsEnabled() {
		return nil, nil
	}
	n := c.SizeMultiple()
	s := &Sizes{multiple: n, periodic: c.Model.Periodic && g.Periodic(), whole: t.WholeEpochs, first: 1, All: []config.FieldSize{{Rows: g.NY, Columns: g.NX}}}
	list := t.Sizes.List
	if t.Sizes.Mixed {
		list = []config.FieldSize{{Rows: g.NY * 3 / 4 / n * n}, {Rows: g.NY / 2 / n * n}}
	}
	for _, size := range list {
		if size.Columns == 0 { // in proportion, as a multiple
			size.Columns = max(n, int(math.Round(float64(size.Rows*g.NX)/float64(g.NY*n)))*n)
		}
		if size.Rows > g.NY || size.Columns > g.NX || size.Rows < n {
			return nil, windowError(size, g, n)
		}
		if size == s.All[0] {
			s.first = 0
		} else if !slices.Contains(s.All, size) {
			s.All = append(s.All, size)
		}
	}
	if len(s.All) == 1 && t.Sizes.Mixed {
		return nil, windowError(list[0], g, n)
	}
	slices.SortStableFunc(s.All[1:], func(a, b config.FieldSize) int { return b.Rows*b.Columns - a.Rows*a.Columns })
	var sum float64
	for j, w := range g.Weights() {
		sum += w
		if (j+1)%g.NX == 0 {
			s.rowShares = append(s.rowShares, sum)
		}
	}
	return s, nil
}

// windowError is the error of a window that does not fit into the field.
func windowError(size config.FieldSize, g *ensemble.Grid, n int) error {
	near := config.FieldSize{Rows: min(max(n, size.Rows), g.NY/n*n), Columns: min(max(n, size.Columns), g.NX/n*n)}
	if near.Rows*near.Columns == g.Size() {
		near = config.FieldSize{Rows: g.NY / 2 / n * n, Columns: g.NX / 2 / n * n}
	}
	fix := fmt.Sprintf("write %s in place of %s", near, size)
	if near.Rows == 0 || near.Columns == 0 {
		fix = "remove train.sizes"
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("windows of %s points in fields of %dx%d", size, g.NY, g.NX), At: "train.sizes",
		Why: fmt.Sprintf("windows are parts of the fields, in multiples of %d points", n), Fix: fix}
}

// CheckMesh refuses meshes in which a rank has only a part of a field.
//
// Errors: exit 64, with the nearest mesh.
func (s *Sizes) CheckMesh(m spatial.Mesh, batch int) error {
	if s == nil {
		return nil
	}
	for _, a := range m {
		if a.Size > 1 && a.Name != spatial.DataAxis {
			fix := "remove train.sizes"
			if n := m.Size(); batch%n == 0 {
				fix = fmt.Sprintf("set train.mesh: data:%d, or ", n) + fix
			}
			return &exit.Error{Code: exit.Usage, What: "train.sizes with train.mesh: " + m.String(), At: "train.sizes",
				Why: "a window lies in the parts of some ranks only", Fix: fix}
		}
		if batch%a.Size != 0 {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("train.sizes with %d samples on %d ranks", batch, a.Size), At: "train.batch_size",
				Why: "each rank has as many samples of each window", Fix: fmt.Sprintf("set train.batch_size: %d, or remove train.sizes", (batch+a.Size-1)/a.Size*a.Size)}
		}
	}
	return nil
}

// purposeSize separates the random numbers of sizes from others with the same seed.
const purposeSize = 0x73697a65

// Draw draws the size of the step that begins with a batch of an epoch, as an index of All, and the place of its window. All
// listed sizes are equally probable; the last epochs have only whole fields. The seed is that of the network.
func (s *Sizes) Draw(seed uint64, epoch, epochs, batch int) (int, network.Window) {
	if s == nil {
		return 0, network.Window{}
	}
	w := network.Window{Size: s.All[0], NY: s.All[0].Rows, NX: s.All[0].Columns}
	if epoch >= s.firstWhole(epochs) {
		return 0, w
	}
	key := rng.Key(seed, purposeSize, uint64(epoch), uint64(batch))
	i := s.first + int(rng.Uniform(key, 0)*float64(len(s.All)-s.first))
	w.Size = s.All[i]
	w.Row, w.Column = s.row(w.Size.Rows, rng.Uniform(key, 1)), s.column(w.Size.Columns, rng.Uniform(key, 2))
	return i, w
}

// CheckWhole refuses sizes without the whole field for a network that needs steps with whole fields from the first epoch on, for
// a reason; "" for others.
//
// Errors: exit 64.
func (s *Sizes) CheckWhole(reason string) error {
	if s == nil || s.first == 0 || reason == "" {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: "train.sizes without whole fields", At: "train.sizes", Why: reason + " are those of whole fields",
		Fix: fmt.Sprintf("add %s to train.sizes, or remove it", s.All[0])}
}

// firstWhole is the epoch from which all steps see whole fields.
func (s *Sizes) firstWhole(epochs int) int { return epochs - int(math.Ceil(s.whole*float64(epochs))) }

// row draws the first row of windows of some rows. The centre has the density of the area, so that points near poles do not
// count more than in the mean over whole fields; windows that would extend beyond the first or last row end there.
func (s *Sizes) row(rows int, u float64) int {
	last := len(s.rowShares) - rows
	centre, _ := slices.BinarySearch(s.rowShares, u*s.rowShares[len(s.rowShares)-1])
	at := centre - rows/2 + s.multiple/2
	return max(0, min(at, last)) / s.multiple * s.multiple
}

// column draws the first column of windows of some columns, uniformly. On periodic grids the window may go on behind the last
// column.
func (s *Sizes) column(columns int, u float64) int {
	places := (s.All[0].Columns-columns)/s.multiple + 1
	if s.periodic && columns < s.All[0].Columns {
		places = s.All[0].Columns / s.multiple
	}
	return int(u*float64(places)) * s.multiple
}

// Cost is the expected time of the training steps relative to that with whole fields, if steps of each size cost costs relative
// to those of whole fields.
func (s *Sizes) Cost(costs []float64, epochs int) float64 {
	var mean float64
	for _, c := range costs[s.first:] {
		mean += c / float64(len(costs)-s.first)
	}
	mixed := float64(s.firstWhole(epochs)) / float64(epochs)
	return mixed*mean + 1 - mixed
}
