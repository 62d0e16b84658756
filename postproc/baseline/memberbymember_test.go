package baseline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// score is the mean CRPS of corrected members.
func (b MemberByMember) score(x, y []float64, f dist.Fairness) float64 {
	m := len(x) / len(y)
	var sum float64
	out := make([]float64, m)
	for i, o := range y {
		var mean float64
		for _, v := range x[i*m : (i+1)*m] {
			mean += v / float64(m)
		}
		for k, v := range x[i*m : (i+1)*m] {
			out[k] = b.A + b.B*mean + b.T*(v-mean)
		}
		sum += dist.KernelCRPS(out, o, f)
	}
	return sum / float64(len(y))
}

// Scores and coefficients computed elsewhere by a general linear program.
func TestMemberByMemberOracles(t *testing.T) {
	var x, y []float64
	for i := range 8 {
		n := float64(i)
		for k := range 5 {
			m := float64(k)
			x = append(x, 10+3*math.Sin(n)+0.8*math.Cos(2*n+1.3*m)+0.05*m)
		}
		y = append(y, 11+2.7*math.Sin(n+0.1)+0.5*math.Cos(3*n))
	}
	raw := MemberByMember{0, 1, 1}
	near(t, "raw plain", raw.score(x, y, dist.Plain), 0.7218372475, 1e-10)
	near(t, "raw fair", raw.score(x, y, dist.Fair), 0.6431282283, 1e-10)
	m, err := FitMemberMoments(x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "moments a", m.A, 2.2193160586, 1e-9)
	near(t, "moments b", m.B, 0.8759324175, 1e-9)
	near(t, "moments t", m.T, 0.6814519152, 1e-9)
	near(t, "moments score", m.score(x, y, dist.Plain), 0.2980696508, 1e-10)
	for _, c := range []struct {
		name           string
		f              dist.Fairness
		a, b, t, score float64
	}{
		{"plain", dist.Plain, 2.4057616803, 0.8610057350, 0.8413911715, 0.2875330440},
		{"almost fair", dist.AlmostFair(0.95), 2.5266190915, 0.8510401455, 0.9275736951, 0.2213740914},
		{"fair", dist.Fair, 2.2641173755, 0.8662850009, 1.0876873690, 0.2172582669},
	} {
		b, err := FitMemberCRPS(x, y, c.f)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+" score", b.score(x, y, c.f), c.score, 1e-10)
		near(t, c.name+" a", b.A, c.a, 1e-8)
		near(t, c.name+" b", b.B, c.b, 1e-8)
		near(t, c.name+" t", b.T, c.t, 1e-8)
	}
}

// The score is convex, so a place from which no step in any of many directions helps is
// its minimum; also with equal members, equal dates and a factor that wants to be below 0.
func TestMemberByMemberIsTheMinimum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, c := range []struct {
		name           string
		dates, members int
		ties           bool
	}{{"few", 5, 3, false}, {"many", 200, 11, false}, {"ties", 60, 4, true}, {"two members", 30, 2, false}} {
		var x, y []float64
		for range c.dates {
			state := 2 * r.NormFloat64()
			if c.ties {
				state = math.Round(state)
			}
			for range c.members {
				v := state + r.NormFloat64()
				if c.ties {
					v = math.Round(v)
				}
				x = append(x, v)
			}
			y = append(y, 1+0.7*state+0.5*r.NormFloat64())
			if c.ties {
				y[len(y)-1] = math.Round(y[len(y)-1])
			}
		}
		b, err := FitMemberCRPS(x, y, dist.Plain)
		if err != nil {
			t.Fatal(c.name, err)
		}
		best := b.score(x, y, dist.Plain)
		for _, size := range []float64{1e-6, 1e-3, 0.1, 1} {
			for range 200 {
				d := MemberByMember{b.A + size*r.NormFloat64(), b.B + size*r.NormFloat64(), max(0, b.T+size*r.NormFloat64())}
				if s := d.score(x, y, dist.Plain); s < best-1e-9*size {
					t.Errorf("%s: %+v scores %.12f, %+v %.12f", c.name, b, best, d, s)
				}
			}
		}
		m, err := FitMemberMoments(x, y)
		if err != nil {
			t.Fatal(err)
		}
		if s := m.score(x, y, dist.Plain); s < best-1e-12 {
			t.Errorf("%s: moments score %.12f, the minimum %.12f", c.name, s, best)
		}
	}
}

// A reliable ensemble comes out of the moment rule: the spread that fits the error.
func TestMemberMomentsAreReliable(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const dates, members = 20000, 10
	var x, y []float64
	for range dates {
		state := 3 * r.NormFloat64()
		for range members {
			x = append(x, state+0.4*r.NormFloat64())
		}
		y = append(y, state+r.NormFloat64())
	}
	b, err := FitMemberMoments(x, y)
	if err != nil {
		t.Fatal(err)
	}
	// Error variance of the corrected mean 1 + 0.16·B²/10, spread T·0.4; 20 000 dates.
	near(t, "T", b.T, math.Sqrt(1.016/1.1)/0.4, 0.03)
	near(t, "B", b.B, 1, 0.01)
}

func TestMemberByMemberLaws(t *testing.T) {
	x := []float64{1, 2, 4, 2, 5, 3, 7, 7, 8, 0, 1, -1, 4, 4, 6}
	y := []float64{2, 3, 8, 1, 4}
	want, err := FitMemberCRPS(x, y, dist.Plain)
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	got, err := FitMemberCRPS(append(x[:15:15], 1, nan, 2, 3, 4, 5), append(y[:5:5], 3, nan), dist.Plain)
	if err != nil || got != want {
		t.Errorf("with gaps %+v, without %+v (%v)", got, want, err)
	}
	field := [][]float32{{1, 9}, {3, 9}, {2, 12}}
	MemberByMember{1, 0.5, 2}.Predict(field, field)
	if w := [][]float32{{0, 4}, {4, 4}, {2, 10}}; field[0][0] != w[0][0] || field[1][0] != w[1][0] || field[2][1] != w[2][1] || field[0][1] != field[1][1] {
		t.Errorf("predicted %v, want %v", field, w)
	}
	for name, c := range map[string]struct{ x, y []float64 }{
		"no dates":      {nil, nil},
		"one member":    {[]float64{1, 2, 3}, []float64{1, 2, 3}},
		"ragged":        {[]float64{1, 2, 3, 4, 5}, []float64{1, 2}},
		"flat mean":     {[]float64{1, 3, 1, 3, 1, 3}, []float64{1, 2, 3}},
		"equal members": {[]float64{1, 1, 2, 2, 3, 3}, []float64{1, 2, 3}},
		"too few":       {[]float64{1, 2, 2, nan, 3, nan}, []float64{1, 2, 3}},
	} {
		if _, err := FitMemberCRPS(c.x, c.y, dist.Plain); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := FitMemberMoments([]float64{1, 2, 2, nan, 3, nan}, []float64{1, 2, 3}); !errors.Is(err, ErrNoCases) {
		t.Errorf("one complete date: %v", err)
	}
}
