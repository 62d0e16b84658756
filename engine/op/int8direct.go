package op

import "math"

// directInt8Ref is the reference kernel of the direct int8 convolution. Filters,
// with the scales of the source channels in them, are quantised symmetrically to
// ±127, with one scale per result channel. All sums are of whole numbers.
//
// Source: Jacob et al. 2018, arXiv:1712.05877, section 2.3.
func directInt8Ref(c Call, a Int8Conv) {
	parts := len(c.In) - 2
	w, ws, bias := c.In[parts], c.InShape[parts], c.In[parts+1]
	taps, cells := ws[2:].Size(), c.OutShape[2:].Size()
	sum := make([]float64, cells)
	for o := range ws[0] {
		u, scale := a.directFilter(w[o*ws[1]*taps:][:ws[1]*taps], taps)
		for n := range c.OutShape[0] {
			clear(sum)
			lo := 0
			for part, x := range c.In[:parts] {
				s := c.InShape[part]
				for i := range s[1] {
					a.addProducts(sum, x[(n*s[1]+i)*cells:][:cells], float64(a.Scales.ZeroPoints[part]), u[(lo+i)*taps:][:taps], s, ws)
				}
				lo += s[1]
			}
			for k, v := range sum {
				c.Out[(n*ws[0]+o)*cells+k] = a.result(o, v*scale+bias[o])
			}
		}
	}
}

// directFilter rounds the filter w of a result channel, and returns its scale.
func (a Int8Conv) directFilter(w []float64, taps int) (u []float64, scale float64) {
	u = make([]float64, len(w))
	most := 0.0
	for i, v := range w {
		u[i] = v * float64(a.Scales.Channels[i/taps])
		most = max(most, math.Abs(u[i]))
	}
	if most == 0 {
		return u, 0
	}
	for i, v := range u {
		u[i] = math.RoundToEven(v * 127 / most)
	}
	return u, most / 127
}

// addProducts adds the convolution of a channel x of shape s, whose code of 0 is
// zero, with the filter u of shape w.
func (a Int8Conv) addProducts(sum, x []float64, zero float64, u []float64, s, w Shape) {
	wrap := a.Pad[2].Periodic
	for k := range sum {
		z, y, at := k/s[4]/s[3], k/s[4]%s[3], k%s[4]
		for t, v := range u {
			dz, dy, dx := z+t/9-w[2]/2, y+t/3%3-1, at+t%3-1
			if wrap {
				dx = (dx + s[4]) % s[4]
			}
			if dz >= 0 && dz < s[2] && dy >= 0 && dy < s[3] && dx >= 0 && dx < s[4] {
				sum[k] += (x[(dz*s[3]+dy)*s[4]+dx] - zero) * v
			}
		}
	}
}
