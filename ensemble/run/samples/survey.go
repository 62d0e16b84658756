package samples

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/store"
)

// Survey counts the samples of a training without reading a field. Initialisations with missing fields count.
//
// Reads: the sample store's index, or the index of the forecast files.
// Returns: the split, and the memory of all samples in bytes, 0 if they are read from a store as needed.
// Errors: exit 64 for a split that leaks; 65 and 66 for files.
func Survey(ctx context.Context, c *config.TrainConfig, grid *ensemble.Grid) (split ensemble.Split, memory int64, err error) {
	if c.Data.Store != "" {
		s, err := store.Open(ctx, string(c.Data.Store), store.OpenOptions{})
		if err != nil {
			return split, 0, err
		}
		defer s.Close()
		split, err = setup.ApplySplit(c.Data.Split, s.Inits())
		return split, 0, err
	}
	files, err := input.ConfigFiles("data.forecasts", c.Data.Forecasts)
	if err != nil {
		return split, 0, err
	}
	in, err := fio.Open(ctx, files, input.ReaderOptions(c, true))
	if err != nil {
		return split, 0, err
	}
	defer in.Close()
	axes, m := setup.ReadAxes(c), c.Data.Members
	_, members, err := input.ChooseMembers(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control)
	if err != nil {
		return split, 0, err
	}
	var inits []ensemble.Init
	for _, e := range in.Catalogue().Entries {
		if _, _, _, ok := axes.Find(e.Key); ok && e.Product == ensemble.MemberField {
			inits = append(inits, e.Init)
		}
	}
	slices.SortFunc(inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	inits = slices.Compact(inits)
	if split, err = setup.ApplySplit(c.Data.Split, inits); err != nil {
		return split, 0, err
	}
	fields := axes.Fields()*len(members) + len(c.Data.TargetLeads)*len(c.Data.Targets)*len(axes.Levels)
	return split, int64(len(SplitInits(split))) * int64(fields) * int64(grid.Size()) * bytesOfValue, nil
}
