package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// MemberChannel is a kind of channel that is computed from the field of one member.
type MemberChannel string

// The channels of members.
const (
	StandardisedMember MemberChannel = "field"  // standardised field, as FirstMember
	MemberOffset       MemberChannel = "offset" // deviation from the mean over the used members, divided by the RMS of the spread
	MemberNoise        MemberChannel = "noise"  // standard normal numbers, see noise
)

// MemberChannels is the number of channels of each member. Channel c = (lead·K + kind)·V +
// variable for K kinds of V variables.
func (f *Features) MemberChannels() int {
	return len(f.Axes.Leads) * len(f.MemberInputs) * len(f.Axes.Variables)
}

// HasNoise reports whether members have channels of noise.
func (f *Features) HasNoise() bool { return slices.Contains(f.MemberInputs, MemberNoise) }

// MemberInput is the input of a network from the members of one forecast.
//
// Shape: Channels [member][MemberChannels][level][NY*NX].
type MemberInput struct {
	Channels []float32
	Noise    NoiseInput
}

// NoiseInput is what the noise of members is made from.
//
// Shape: Fields [member][lead·V + variable][level][NY*NX] for V variables.
type NoiseInput struct {
	Draw   int       // number of the draw
	Fields []float32 // fields of which Redraw makes other draws; nil: not needed
}

// BuildMembers writes the channels of each used member of one forecast. used are positions on the
// member axis.
//
// Missing: a missing value becomes 0. Errors: a dst of another length; those of Maps.
func (f *Features) BuildMembers(dst MemberInput, fc *Forecast, used []int) error {
	n, d := fc.Grid.Size(), len(f.Axes.Levels)
	if len(dst.Channels) != len(used)*f.MemberChannels()*d*n {
		return fmt.Errorf("members: dst has %[2]d values, want %[1]d", len(used)*f.MemberChannels()*d*n, len(dst.Channels))
	}
	return f.eachField(n, func(t, v, l int, r *Scratch) error {
		fields := make([][]float32, len(used))
		for i, m := range used {
			fields[i] = fc.Field(t, m, v, l)
		}
		return f.WriteMemberField(dst, fields, t, v, l, r)
	})
}

// WriteMemberField writes the channels of members of variable v at lead t and level l, as WriteField does
// those of statistics.
//
// Shape: each of fields [point]. Errors: those of Maps.
func (f *Features) WriteMemberField(dst MemberInput, fields [][]float32, t, v, l int, r *Scratch) error {
	norm, err := f.normaliser(t, v, l, r)
	if err != nil {
		return err
	}
	if slices.Contains(f.MemberInputs, MemberOffset) {
		f.MeanStd(r.mean, r.std, fields)
	}
	inverse := float32(1 / f.Spreads[f.index(t, v, l)])
	for m, x := range fields {
		if dst.Noise.Fields != nil {
			copy(f.noiseField(dst.Noise.Fields, m, f.index(t, v, l), len(x)), x)
		}
		for i, kind := range f.MemberInputs {
			out := f.memberChannel(dst.Channels, m, i, f.index(t, v, l), len(x))
			switch kind {
			case StandardisedMember:
				norm.Apply(out, x)
			case MemberNoise:
				noise(out, x, f.noiseStream(f.index(t, v, l)), dst.Noise.Draw)
			case MemberOffset:
				for p, y := range x {
					out[p] = (y - r.mean[p]) * inverse
				}
			}
			limitInputs(out)
		}
	}
	return nil
}

// memberChannel is the channel of a kind of input that member m has of an input field of n points.
func (f *Features) memberChannel(channels []float32, m, kind, field, n int) []float32 {
	d, vars := len(f.Axes.Levels), len(f.Axes.Variables)
	t, v, l := field/d/vars, field/d%vars, field%d
	c := m*f.MemberChannels() + (t*len(f.MemberInputs)+kind)*vars + v
	return channels[(c*d+l)*n : (c*d+l+1)*n]
}

// noiseField is an input field of n points of member m in NoiseInput.Fields.
func (f *Features) noiseField(fields []float32, m, field, n int) []float32 {
	i := m*f.Axes.Fields() + field
	return fields[i*n : (i+1)*n]
}

// Redraw replaces the noise of all members by that of draw in.Noise.Draw. The other channels stay.
func (f *Features) Redraw(in MemberInput, members int) {
	fields := f.Axes.Fields()
	n := len(in.Noise.Fields) / (members * fields)
	for kind, k := range f.MemberInputs {
		for i := 0; k == MemberNoise && i < members*fields; i++ {
			m, field := i/fields, i%fields
			out := f.memberChannel(in.Channels, m, kind, field, n)
			noise(out, f.noiseField(in.Noise.Fields, m, field, n), f.noiseStream(field), in.Noise.Draw)
			limitInputs(out)
		}
	}
}

// TrainingDraw is the number of the draw of noise in an epoch, from 0. Draw 0 is that of validation and of predictions.
func (f *Features) TrainingDraw(epoch int) int {
	if f.NewNoise {
		return epoch + 1
	}
	return 0
}

// noiseStream is the stream of the noise of an input field.
func (f *Features) noiseStream(field int) int {
	if f.NoiseStreams != nil {
		return f.NoiseStreams[field]
	}
	return field
}

// gamma is the distance of two states of splitmix64.
//
// Source: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.
const gamma = 0x9e3779b97f4a7c15

// noise fills dst with standard normal numbers derived from the bits of a field, a stream number and the
// number of a draw. They do not depend on the number of the member, on other members, or on how the
// field is divided. Equal values give equal numbers. Their mean is 0 and their variance 1.
//
// Missing: NaN gives NaN.
// Source: Box and Muller 1958, doi:10.1214/aoms/1177706645, from bits mixed as in splitmix64.
func noise(dst, field []float32, stream, draw int) {
	for p, x := range field {
		// A draw is a state of splitmix64, which starts at the bits and the stream. Two finalisation steps;
		// then the upper and lower half of the bits are the uniform numbers of the Box–Muller transform.
		z := (uint64(math.Float32bits(x)) | uint64(stream+1)<<32) + uint64(draw)*gamma
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

// normaliser returns the normaliser of a field, whose maps may have to be read from a file.
func (f *Features) normaliser(t, v, l int, r *Scratch) (*Normaliser, error) {
	norm := f.Fields[f.index(t, v, l)]
	if norm.Mean != nil {
		return norm, nil
	}
	return &r.norm, f.Maps(f.index(t, v, l), &r.norm)
}

// MeanStd is MeanStd over the fields of the used members. Their order does not change any bit.
func (f *Features) MeanStd(mean, std []float32, fields [][]float32) {
	MeanStd(mean, std, fields, f.DDOF)
}

// SortMembers sorts blocks of equal size, one for each member, by their values, so that results
// computed from them do not depend on the numbering of members. from holds the previous
// positions: block i was at from[i].
//
// Shape: parts [member][value].
// Cost: a copy of parts, unless they are in order; most comparisons end at the first value.
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

// PermuteMembers moves the block of member from[i] to position i, for every i.
//
// Memory: a copy of parts.
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

// compareFields orders fields by the bits of the first values that differ. Bits order NaN too,
// so the order is total; it is not that of the numbers below 0.
func compareFields(a, b []float32) int {
	for i, x := range a {
		if c := cmp.Compare(math.Float32bits(x), math.Float32bits(b[i])); c != 0 {
			return c
		}
	}
	return 0
}
