package op

// Quad is the number of neighbouring input channels of which at most two have non-zero
// values in the 2:4 pattern.
const Quad = 4

// IsTwoFour reports whether a filter w [O C taps] has the 2:4 pattern of sparse tensor
// cores: for each result channel and tap, at most two of the values of input channels 4q
// to 4q + 3 are not zero, for every q. The last channels may be fewer. NaN counts as
// non-zero. It is false if s is not the shape of a filter, or has no whole quad of channels.
//
// Source: Mishra et al. 2021, arXiv:2104.08378, section 3. Channels are the summed index
// that is contiguous in memory on a GPU.
func IsTwoFour(w []float32, s Shape) bool {
	if len(s) < 3 || s[1] < Quad {
		return false
	}
	channels, taps := s[1], s[2:].Size()
	for o := range s[0] {
		row := w[o*channels*taps:][:channels*taps]
		for t := range taps {
			nonzeros := 0
			for c := range channels {
				if c%Quad == 0 {
					nonzeros = 0
				}
				if row[c*taps+t] != 0 { // true for NaN too
					nonzeros++
				}
				if nonzeros > Quad/2 {
					return false
				}
			}
		}
	}
	return true
}
