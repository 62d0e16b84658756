//go:build ignore

// Generate makes coastline.bin from the TopoJSON file of world-atlas:
//
//	npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
//	go run generate.go package/land-110m.json
//
// The file is a list of lines: uvarint number of points, then per point two
// varints, the steps of longitude and latitude in 0.01 degrees.
package main

import (
	"encoding/binary"
	"encoding/json"
	"log"
	"math"
	"os"
)

const unit = 0.01

func main() {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var topo struct {
		Transform struct{ Scale, Translate [2]float64 }
		Arcs      [][][2]int64
	}
	if err := json.Unmarshal(raw, &topo); err != nil {
		log.Fatal(err)
	}
	var out []byte
	for _, arc := range topo.Arcs {
		var x, y int64
		var line [][2]int64
		flush := func() {
			if len(line) > 1 {
				out = binary.AppendUvarint(out, uint64(len(line)))
				var px, py int64
				for _, p := range line {
					out = binary.AppendVarint(out, p[0]-px)
					out = binary.AppendVarint(out, p[1]-py)
					px, py = p[0], p[1]
				}
			}
			line = nil
		}
		onCut := func(p [2]int64) bool { return p[0] >= 17999 || p[0] <= -17999 || p[1] <= -8990 }
		for _, d := range arc {
			x, y = x+d[0], y+d[1]
			p := [2]int64{
				int64(math.Round((topo.Transform.Translate[0] + float64(x)*topo.Transform.Scale[0]) / unit)),
				int64(math.Round((topo.Transform.Translate[1] + float64(y)*topo.Transform.Scale[1]) / unit)),
			}
			if n := len(line); n > 0 && line[n-1] == p {
				continue
			} else if n > 0 && onCut(line[n-1]) && onCut(p) {
				flush()
			}
			if n := len(line); n > 0 && p[0]-line[n-1][0] > 18000 { // the line reaches 180° E, written as 180° W
				line = append(line, [2]int64{p[0] - 36000, p[1]})
				flush()
			} else if n > 0 && line[n-1][0]-p[0] > 18000 {
				line = append(line, [2]int64{p[0] + 36000, p[1]})
				flush()
			}
			line = append(line, p)
		}
		flush()
	}
	if err := os.WriteFile("coastline.bin", out, 0o644); err != nil {
		log.Fatal(err)
	}
}
