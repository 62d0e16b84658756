package input

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/station"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// StationInterpolator interpolates fields to stations.
type StationInterpolator struct {
	Stations []ensemble.Station
	weights  *regrid.Weights
	// HeightCorrection is the correction of 2 m temperature for the height of each station above the grid's orography, in
	// K; nil without orography.
	HeightCorrection []float32
	Description      string // method, for the source attribute of the products
}

// NewStationInterpolator reads the requested stations and computes the interpolation from a grid.
//
// Errors: those of station.Read; exit 64 for stations outside the grid, and for grids without this
// interpolation; 65 and 66 for the orography.
func NewStationInterpolator(ctx context.Context, pool *decode.Pool, c config.Output, grid *ensemble.Grid) (*StationInterpolator, error) {
	stations, err := station.Read(string(c.Stations))
	if err != nil {
		return nil, err
	}
	s := &StationInterpolator{Stations: stations, Description: c.Interpolation + " at stations"}
	s.weights, err = regrid.New(grid, ensemble.StationGrid(stations), regrid.Options{Method: regrid.Method(c.Interpolation), MinValid: 1})
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the grid cannot be interpolated to stations", At: "output.interpolation", Why: err.Error(),
			Fix: "set output.interpolation: nearest", Err: err}
	}
	everywhere := make([]float32, grid.Size())
	for i := range everywhere {
		everywhere[i] = 1
	}
	var outside []string
	for i, v := range s.Interpolate(everywhere) {
		if v != v {
			outside = append(outside, stations[i].ID)
		}
	}
	if outside != nil {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s outside of the grid", humanise.Count(len(outside), "station")), At: string(c.Stations),
			Why: strings.Join(outside[:min(len(outside), 10)], ", ") + ", the grid is " + grid.String(), Fix: "remove them from the list"}
	}
	if c.Orography == "" {
		return s, nil
	}
	heights, sum, err := orography(ctx, pool, string(c.Orography), grid)
	if err != nil {
		return nil, err
	}
	s.HeightCorrection = s.Interpolate(heights)
	for i, at := range stations {
		s.HeightCorrection[i] = float32(ensemble.LapseRate * (float64(s.HeightCorrection[i]) - at.Altitude))
		if at.Altitude != at.Altitude {
			s.HeightCorrection[i] = 0
		}
	}
	s.Description += fmt.Sprintf(", 2 metre temperature by %g K m-1 from the height of the grid (sha256:%s) to the altitude of stations that have one", ensemble.LapseRate, sum)
	return s, nil
}

// CheckPointList refuses networks that use neighbouring points if the forecasts are a list of points, whose
// neighbours in the list are not neighbours in space.
//
// Errors: exit 64.
func CheckPointList(c *config.TrainConfig, grid *ensemble.Grid) error {
	if grid.Kind != ensemble.Points || c.Model.NetworkKind().Pointwise && c.Model.Members != config.MemberEncoder {
		return nil
	}
	what, at := "model.kind is "+c.Model.Kind, "model.kind"
	byPoint := unet3d.KindNames(func(k *unet3d.Kind) bool { return k.Pointwise })
	if c.Model.NetworkKind().Pointwise {
		what, at = "model.members is "+c.Model.Members, "model.members"
	}
	return &exit.Error{Code: exit.Usage, What: what + " and the forecasts are at single points", At: at,
		Why: grid.String() + ": neighbours in a list of points are not neighbours in space", Fix: "set model.kind: " + strings.Join(byPoint, " or ") + ", a network per point, and model.members: " + config.MemberStatistics}
}

// Interpolate interpolates a field to the stations.
//
// Shape: field [point] → [station].
// Missing: NaN if a point with weight is NaN.
func (s *StationInterpolator) Interpolate(field []float32) []float32 {
	out := make([]float32, len(s.Stations))
	regrid.Apply(s.weights, out, field)
	return out
}

// orography reads the orography of a grid: surface geopotential, or height in m.
//
// Errors: exit 65 and 66.
func orography(ctx context.Context, pool *decode.Pool, path string, grid *ensemble.Grid) (heights []float32, sum string, err error) {
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: pool, Static: true})
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	found := slices.IndexFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool {
		return e.Level.Kind != ensemble.Pressure && slices.Contains(orographyNames, e.Variable) && (e.Unit == "m" || e.Unit == "m2 s-2")
	})
	if found < 0 {
		return nil, "", &exit.Error{Code: exit.BadData, What: "no orography", At: path, Why: "the file contains none of " + strings.Join(orographyNames, ", ") + " at the surface",
			Fix: "give a file with the geopotential or the height of the model's surface"}
	}
	e := in.Catalogue().Entries[found]
	if !e.Grid.SameAs(grid, GridTolerance) {
		return nil, "", GridMismatchFault("the heights", e.Grid, "the forecasts", grid, "give a file with the heights on the grid of the forecasts").AtEntry(e).AsError()
	}
	f, err := in.ReadOne(ctx, e)
	if err != nil {
		return nil, "", err
	}
	if e.Unit == "m2 s-2" {
		for i := range f.Values {
			f.Values[i] /= ensemble.StandardGravity
		}
	}
	sums, err := manifest.Sum(path)
	if err != nil {
		return nil, "", err
	}
	return f.Values, sums[0].SHA256, nil
}

// orographyNames are names of variables with the orography.
var orographyNames = []string{"z", "orog", "gh", "h", "surface_altitude", "topography"}
