package order

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func TestLongitudes(t *testing.T) {
	for _, c := range []struct {
		name        string
		west, east  float64
		n           int
		first, last float64
		roll        int
	}{
		{"from 0", 0, 355, 72, 0, 355, 0},
		{"from 180", 180, 535, 72, 0, 355, 36},
		{"from -180", -180, 175, 72, 0, 355, 36},
		{"from -177.5", -177.5, 177.5, 72, 2.5, 357.5, 36},
		{"rounded corners", 0, 358.594, 256, 0, 360 - 360.0/256, 0},
		{"a part across Greenwich", -12, 40, 53, 348, 400, 0},
		{"one column", 10, 10, 1, 10, 10, 0},
		{"written to 360", 0, 360, 73, 0, 360, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			lon, roll := Longitudes(c.west, c.east, c.n)
			if math.Abs(lon[0]-c.first) > 1e-9 || math.Abs(lon[c.n-1]-c.last) > 1e-9 || roll != c.roll {
				t.Errorf("got %v to %v, roll %d; want %v to %v, roll %d", lon[0], lon[c.n-1], roll, c.first, c.last, c.roll)
			}
			for i := 1; i < c.n; i++ {
				if lon[i] <= lon[i-1] {
					t.Fatalf("not ascending at %d", i)
				}
			}
		})
	}
}

// One field, whose values identify the points, stored in all sixteen scanning modes
// with three first longitudes, becomes the same field in normal order, and is
// restored.
func TestAllScanningModes(t *testing.T) {
	const nx, ny = 6, 5
	value := func(lat, lon float64) float32 { return float32(1000*lat + math.Mod(lon+360, 360)) }
	for _, origin := range []float64{0, 180, -180} {
		for mode := 0; mode < 256; mode += 16 {
			t.Run(fmt.Sprintf("mode %d from %g", mode, origin), func(t *testing.T) {
				src := ensemble.SourceOrder{SouthFirst: mode&64 != 0, EastFirst: mode&128 != 0, ColumnMajor: mode&32 != 0, ScanningMode: mode}
				alternate := mode&16 != 0
				g := &ensemble.Grid{NX: nx, NY: ny, Source: src}
				g.Lon, g.Source.Roll = Longitudes(origin, origin+300, nx)
				stored := make([]float32, nx*ny)
				for k := range stored {
					r, c := k/nx, k%nx
					if src.ColumnMajor {
						r, c = k%ny, k/ny
						if alternate && c%2 == 1 {
							r = ny - 1 - r
						}
					} else if alternate && r%2 == 1 {
						c = nx - 1 - c
					}
					lat := 60 - 30*float64(r)
					if src.SouthFirst {
						lat = -60 + 30*float64(r)
					}
					lon := origin + 60*float64(c)
					if src.EastFirst {
						lon = origin + 300 - 60*float64(c)
					}
					stored[k] = value(lat, lon)
				}
				normal := make([]float32, nx*ny)
				if err := ToNormal(normal, stored, g); err != nil {
					t.Fatal(err)
				}
				for j := range ny {
					for i := range nx {
						if want := value(60-30*float64(j), 60*float64(i)); normal[j*nx+i] != want {
							t.Fatalf("row %d column %d holds %v, want %v", j, i, normal[j*nx+i], want)
						}
					}
				}
				back := make([]float32, nx*ny)
				if err := ToStored(back, normal, g); err != nil {
					t.Fatal(err)
				}
				for k := range back {
					if back[k] != stored[k] {
						t.Fatalf("way back differs at %d", k)
					}
				}
			})
		}
	}
}

// Windows read as rectangles of the stored field equal those in normal order, and
// windows that partition a field read every stored value once.
func TestRects(t *testing.T) {
	const nx, ny = 6, 5
	for mode := 0; mode < 16; mode++ {
		src := ensemble.SourceOrder{SouthFirst: mode&1 != 0, EastFirst: mode&2 != 0, ColumnMajor: mode&4 != 0, ScanningMode: -1}
		if mode&8 != 0 {
			src.Roll = 4
		}
		g := &ensemble.Grid{NX: nx, NY: ny, Source: src}
		stored, whole := make([]float32, nx*ny), make([]float32, nx*ny)
		for i := range stored {
			stored[i] = float32(i + 1)
		}
		if err := ToNormal(whole, stored, g); err != nil {
			t.Fatal(err)
		}
		for _, cuts := range [][2][]int{{{0, ny}, {0, nx}}, {{0, 2, ny}, {0, 1, 3, nx}}, {{0, 1, 4, ny}, {0, nx}}} {
			read := 0
			for j := range len(cuts[0]) - 1 {
				for i := range len(cuts[1]) - 1 {
					w := ensemble.Window{Rows: [2]int{cuts[0][j], cuts[0][j+1]}, Cols: [2]int{cuts[1][i], cuts[1][i+1]}}
					want, got := ensemble.CropField(whole, g, w), make([]float32, g.SizeOf(w))
					rects, err := WindowRects(g, w)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range rects {
						var part []float32
						for a := range r.Rows * r.Cols {
							row, col := r.Row+a/r.Cols, r.Col+a%r.Cols
							if src.ColumnMajor {
								row, col = r.Row+a%r.Rows, r.Col+a/r.Rows
								part = append(part, stored[col*ny+row])
								continue
							}
							part = append(part, stored[row*nx+col])
						}
						read += len(part)
						r.CopyToWindow(got, part, g, w)
						if to, step, ok := r.RowLayout(g, w); ok {
							for a, v := range part {
								if at := to + a/r.Cols*step + a%r.Cols; got[at] != v {
									t.Errorf("%+v, window %v: value %d of %+v at %d, which has %v", src, w, a, r, at, got[at])
								}
							}
						} else if !src.ColumnMajor && !src.EastFirst {
							t.Errorf("%+v: %+v has no lines", src, r)
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%+v, window %v: %v, want %v", src, w, got, want)
					}
				}
			}
			if read != nx*ny {
				t.Errorf("%+v, cuts %v: %d values read of %d", src, cuts, read, nx*ny)
			}
		}
	}
	if _, err := WindowRects(&ensemble.Grid{NX: nx, NY: ny, Source: ensemble.SourceOrder{ScanningMode: 16}}, ensemble.Window{}); err == nil {
		t.Error("rows in turns have rectangles")
	}
}
