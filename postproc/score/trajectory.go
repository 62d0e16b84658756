package score

import "math"

// The scores below verify trajectories as vectors: the values of a point at all leads up
// to that of the target. A member must have the same number at all leads.

// trajectory returns the members and the observations of a case at all leads.
//
// Shape: x [member][lead], y [lead].
func (c *Case) trajectory() (x [][]float64, y []float64) {
	l := &c.location
	x = make([][]float64, len(l.members))
	for m, f := range l.members {
		for _, lead := range l.earlier {
			x[m] = append(x[m], float64(lead[m][l.p]))
		}
		x[m] = append(x[m], float64(f[l.p]))
	}
	for _, f := range l.earlierObs {
		y = append(y, float64(f[l.p]))
	}
	return x, append(y, float64(l.obs[l.p]))
}

// pointOverLeads makes a function of trajectories the Point of a score. Points that are missing
// at some lead do not count: parts are the value and 1, or 0 and 0.
func pointOverLeads(of func(x [][]float64, y []float64) float64) func(parts []float64, c *Case) {
	return func(parts []float64, c *Case) {
		parts[0], parts[1] = 0, 0
		if v := of(c.trajectory()); !math.IsNaN(v) {
			parts[0], parts[1] = v, 1
		}
	}
}

// EnergyTime and EnergyTimeFair are the energy score of trajectories. The distance of two
// trajectories is their root mean square difference over leads:
//
//	< (1/M) Σᵢ |xᵢ−y| − c ΣᵢΣⱼ |xᵢ−xⱼ| >,  c = 1/(2M²), fair 1/(2M(M−1))
//
// With one lead they are the plain and the fair CRPS.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
var (
	EnergyTime     = newEnergyOverLeads("energy_time", "energy score of trajectories", "M^2", 1, false)
	EnergyTimeFair = newEnergyOverLeads("energy_time_fair", "energy score of trajectories, fair", "M(M-1)", 2, true)
)

// newEnergyOverLeads defines an energy score of trajectories; least is the least number of
// members.
func newEnergyOverLeads(id, name, divisor string, least int, fair bool) *Score {
	return &Score{
		ID: id, Name: name, Formula: "<mean_i|x_i-y| - 1/(2 " + divisor + ") sum_ij|x_i-x_j|>, |.| the RMS over leads",
		Doc:    "CRPS of a point's values at all leads up to this one; sensitive to unrealistic trajectories.",
		Source: "doi:10.1198/016214506000001437",
		Unit:   SameAsVariable, Better: Lower, Divisor: divisor, Needs: Members | Leads, MinMembers: least, Parts: 2,
		Point: pointOverLeads(func(x [][]float64, y []float64) float64 { return EnergyScore(x, y, nil, fair) }),
		Value: meanOfCounted,
	}
}

// VariogramTime is the variogram score of order ½ over the pairs of leads of a point, as a
// mean over pairs:
//
//	< ( |y_s−y_t|^½ − (1/M) Σ_m |x_ms−x_mt|^½ )² >, s < t
//
// It verifies whether members change as much from lead to lead as the observations.
//
// Unit: that of the variable. Better: lower.
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-14-00269.1.
var VariogramTime = &Score{
	ID: "variogram_time", Name: "variogram score of leads", Formula: "<(|y_s-y_t|^0.5 - mean_m|x_ms-x_mt|^0.5)^2>, s before t",
	Doc:    "Whether members change as much between leads as the reference.",
	Source: "doi:10.1175/MWR-D-14-00269.1",
	Unit:   SameAsVariable, Better: Lower, Divisor: "M", Needs: Members | Leads, MinMembers: 1, Parts: 2,
	Point: pointOverLeads(func(x [][]float64, y []float64) float64 {
		n := float64(len(y))
		return VariogramScore(x, y, nil) / (n * (n - 1)) // VariogramScore counts each pair twice
	}),
	Value: meanOfCounted,
}

// meanOfCounted is the Value of averages over the points that count: Σ value / Σ count.
func meanOfCounted(mean []float64, _ int) float64 { return mean[0] / mean[1] }
