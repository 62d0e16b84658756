package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// MemberChannel is one way to turn a member's field of a variable into a channel of that member.
type MemberChannel string

// The fields of members that networks may read.
const (
	StandardisedMember MemberChannel = "field"  // standardised, as that of FirstMember
	MemberOffset       MemberChannel = "offset" // from the mean over the used members, over the RMS of spread
	MemberNoise        MemberChannel = "noise"  // normal numbers, as noise makes them of the member's own field
)

// MemberChannels is the number of channels that each member has: channel c = (lead·K + kind)·V +
// variable for K kinds of V variables.
func (f *Features) MemberChannels() int {
	return len(f.Axes.Leads) * len(f.MemberInputs) * len(f.Axes.Variables)
}

// BuildMembers writes the channels of each used member of one forecast.
//
// Shape: dst [member][MemberChannels][level][NY*NX]. used are positions on the member axis.
// Missing: a missing value becomes 0. Errors: if dst has another length; those of Maps.
func (f *Features) BuildMembers(dst []float32, fc *Forecast, used []int) error {
	n, d := fc.Grid.Size(), len(f.Axes.Levels)
	if len(dst) != len(used)*f.MemberChannels()*d*n {
		return fmt.Errorf("members: %d values wanted, room for %d", len(used)*f.MemberChannels()*d*n, len(dst))
	}
	return f.eachField(n, func(t, v, l int, r *Scratch) error {
		fields := make([][]float32, len(used))
		for i, m := range used {
			fields[i] = fc.Field(t, m, v, l)
		}
		return f.WriteMemberField(dst, fields, t, v, l, r)
	})
}

// WriteMemberField writes the channels of members of the field at lead t, of variable v and level l,
// as Field does those of statistics.
//
// Shape: dst as in BuildMembers; each of fields [point]. Errors: those of Maps.
func (f *Features) WriteMemberField(dst []float32, fields [][]float32, t, v, l int, r *Scratch) error {
	n, d := len(fields[0]), len(f.Axes.Levels)
	norm, err := f.normaliser(t, v, l, r)
	if err != nil {
		return err
	}
	if slices.Contains(f.MemberInputs, MemberOffset) {
		f.MeanStd(r.mean, r.std, fields)
	}
	inverse := float32(1 / f.Spreads[f.index(t, v, l)])
	for m, x := range fields {
		for i, kind := range f.MemberInputs {
			c := m*f.MemberChannels() + (t*len(f.MemberInputs)+i)*len(f.Axes.Variables) + v
			out := dst[(c*d+l)*n : (c*d+l+1)*n]
			switch kind {
			case StandardisedMember:
				norm.Apply(out, x)
			case MemberNoise:
				noise(out, x, uint64(f.index(t, v, l)))
			case MemberOffset:
				for p, y := range x {
					out[p] = (y - r.mean[p]) * inverse
				}
			}
			for p, y := range out {
				if y != y {
					out[p] = 0
				}
			}
		}
	}
	return nil
}

// noise makes standard normal numbers of the bits of a field, of another stream others. They are the same whatever number the
// member has and however the field is cut, and no other member is known by them; equal values give equal
// numbers. Missing: NaN.
//
// Source: Box and Muller 1958, doi:10.1214/aoms/1177706645, of bits that are mixed as in splitmix64.
func noise(dst, field []float32, stream uint64) {
	for p, x := range field {
		z := uint64(math.Float32bits(x)) | (stream+1)<<32
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		radius, angle := (float64(z>>32)+0.5)/(1<<32), 2*math.Pi*float64(z&(1<<32-1))/(1<<32)
		dst[p] = float32(math.Sqrt(-2*math.Log(radius)) * math.Cos(angle))
		if x != x {
			dst[p] = x
		}
	}
}

// normaliser is that of a field, whose maps may lie in a file.
func (f *Features) normaliser(t, v, l int, r *Scratch) (*Normaliser, error) {
	norm := f.Fields[f.index(t, v, l)]
	if norm.Mean != nil {
		return norm, nil
	}
	return &r.norm, f.Maps(f.index(t, v, l), &r.norm)
}

// MeanStd is MeanStd over the fields of the used members, whose order decides no bit.
func (f *Features) MeanStd(mean, std []float32, fields [][]float32) {
	MeanStd(mean, std, fields, f.DDOF)
}

// SortMembers brings parts of equal size, one of each member, into the order of their values, so
// that what is computed of them depends on the members and not on their numbers. from are the
// members' positions before: part i came from from[i].
func SortMembers(parts []float32, members int) (from []int) {
	size := len(parts) / members
	part := func(x []float32, m int) []float32 { return x[m*size : (m+1)*size] }
	from = make([]int, members)
	for m := range from {
		from[m] = m
	}
	slices.SortStableFunc(from, func(a, b int) int { return compareFields(part(parts, a), part(parts, b)) })
	PermuteMembers(parts, from)
	return from
}

// PermuteMembers puts the part of member from[i] to place i, for every i.
func PermuteMembers(parts []float32, from []int) {
	if slices.IsSorted(from) {
		return
	}
	size := len(parts) / len(from)
	before := slices.Clone(parts)
	for i, was := range from {
		copy(parts[i*size:(i+1)*size], before[was*size:])
	}
}

// compareFields orders fields by the bits of their first values that differ.
func compareFields(a, b []float32) int {
	for i, x := range a {
		if c := cmp.Compare(math.Float32bits(x), math.Float32bits(b[i])); c != 0 {
			return c
		}
	}
	return 0
}
