package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// cables counts those between two hosts, and those with a switch.
func cables(t *cluster.Topology) (board, switched int) {
	for _, l := range t.Links {
		if l.From < t.Hosts && l.To < t.Hosts {
			board++
		} else {
			switched++
		}
	}
	return board / 2, switched / 2
}

func TestCounts(t *testing.T) {
	for _, k := range []struct {
		text                             string
		hosts, switches, board, switched int
	}{
		{"crossbar:7", 7, 1, 0, 7},
		{"ethernet:5", 5, 1, 0, 5},
		{"leafspine:64,64", 64, 1, 0, 64},
		{"leafspine:1024,64", 1024, 48, 0, 2048},
		{"fattree:4", 16, 20, 0, 48},
		{"fattree:8", 128, 80, 0, 384},
		{"fattree:16", 1024, 320, 0, 3072},
		{"torus:8,8", 64, 0, 128, 0},
		{"torus:1,5", 5, 0, 5, 0},
		{"torus:3,2", 6, 0, 12, 0}, // double cables along rows
		{"hx:2,2,2,2", 16, 2, 16, 32},
		{"hx:2,2,4,4", 64, 2, 64, 128},
		{"hx:2,2,16,16", 1024, 32, 1024, 2048},
		{"hx:4,4,8,8", 1024, 16, 1536, 1024},
		{"hx:1,1,32,32", 1024, 64, 0, 4096},
		{"hx:2,3,5,4", 120, 4, 140, 200},                      // 8 row networks of 10 ports, 15 column networks of 8
		{"hx:2,2,64,64", 16384, 1536, 16384, 32768 + 256*128}, // leaves to spines
		{"hx:4,4,32,32", 16384, 256, 24576, 16384},
		{"hx:3,4,1,1", 12, 0, 17, 0}, // a mesh
		{"dragonfly:1,2,1", 6, 6, 0, 6 + 3 + 3},
		{"dragonfly:2,4,2", 72, 36, 0, 72 + 54 + 36},
		{"dragonfly:4,8,4", 1056, 264, 0, 1056 + 924 + 528},
	} {
		n := parse(t, k.text)
		board, switched := cables(n)
		if n.Name != k.text || n.Hosts != k.hosts || n.Switches != k.switches || board != k.board || switched != k.switched {
			t.Errorf("%s: %s, %d hosts, %d switches, %d cables between hosts, %d others; want %d, %d, %d and %d",
				k.text, n.Name, n.Hosts, n.Switches, board, switched, k.hosts, k.switches, k.board, k.switched)
		}
	}
}

// All ports of every switch are used; a router of a dragonfly has p + a − 1 + h.
func TestRadix(t *testing.T) {
	for text, radix := range map[string]int{"dragonfly:2,4,2": 7, "leafspine:1024,64": 64, "fattree:8": 8, "hx:2,2,32,32": 64} {
		n := parse(t, text)
		ports := make([]int, n.Nodes)
		for _, l := range n.Links {
			ports[l.From]++
		}
		for s := n.Hosts; s < n.Nodes; s++ {
			if ports[s] != radix {
				t.Fatalf("%s: switch %d has %d ports, want %d", text, s-n.Hosts, ports[s], radix)
			}
		}
	}
}

func ExampleParse() {
	network, err := cluster.Parse("hx:4,4,8,8", cluster.Cable{Rate: 50_000_000_000, Delay: 100 * cluster.Nanosecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	most, mean := network.Hops()
	fmt.Printf("%d hosts, %d switches, %d hops at most, %.2f on average\n", network.Hosts, network.Switches, most, mean)
	_, err = cluster.Parse("hx:4,4,8", cluster.Cable{})
	fmt.Println(err)
	// Output:
	// 1024 hosts, 16 switches, 8 hops at most, 5.57 on average
	// error[E064]: invalid network "hx:4,4,8"
	//   why: hx takes a,b,x,y
	//   fix: write one of crossbar:N, leafspine:N,radix, fattree:k, torus:r,c, hx:a,b,x,y, dragonfly:p,a,h, ethernet:N
}

func TestHops(t *testing.T) {
	for _, k := range []struct {
		text string
		most int
		mean float64 // over ordered pairs of different hosts; 0 if not known
	}{
		{"crossbar:9", 2, 2},
		{"leafspine:100,16", 4, 0},
		{"fattree:4", 6, (1*2 + 2*4 + 12*6) / 15.},
		{"torus:8,8", 8, 4.0635},
		{"torus:32,32", 32, 16.0156},
		{"hx:2,2,2,2", 4, 0},
		{"hx:2,2,4,4", 4, 3.3016},
		{"hx:2,2,16,16", 4, 3.8162},
		{"hx:4,4,8,8", 8, 5.5679},
		{"hx:1,1,32,32", 4, 0},
		{"hx:2,2,64,2", 6, 0}, // two levels along rows
		{"dragonfly:2,4,2", 5, 0},
	} {
		most, mean := parse(t, k.text).Hops()
		if most != k.most || k.mean > 0 && math.Abs(mean-k.mean) > 5e-5 {
			t.Errorf("%s: %d hops at most, %.4f on average, want %d and %.4f", k.text, most, mean, k.most, k.mean)
		}
	}
}

// distances returns the smallest number of links from a node to every other.
func distances(n *cluster.Topology, from int) []int {
	out := make([][]int, n.Nodes)
	for _, l := range n.Links {
		out[l.From] = append(out[l.From], l.To)
	}
	d := make([]int, n.Nodes)
	for i := range d {
		d[i] = -1
	}
	d[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range out[queue[0]] {
			if d[to] < 0 {
				d[to] = d[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	return d
}

// Routes are connected, end at their destination and are shortest paths, with two
// exceptions: a dragonfly takes one global link where two without local links are
// shorter, and a board is crossed along its mesh even where the switch at its edges
// is nearer.
func TestRoutes(t *testing.T) {
	for text, shortest := range map[string]bool{
		"crossbar:5": true, "leafspine:20,8": true, "fattree:2": true, "fattree:6": true,
		"torus:1,5": true, "torus:2,2": true, "torus:4,6": true, "torus:5,7": true,
		"hx:1,1,4,5": true, "hx:2,2,3,4": true, "hx:2,3,2,5": true, "hx:4,5,1,1": true, "hx:2,2,40,1": true,
		"hx:4,4,2,3": false, "hx:5,3,3,2": false, "dragonfly:1,2,1": false, "dragonfly:2,4,2": false, "dragonfly:3,2,3": false,
	} {
		n := parse(t, text)
		for from := range n.Hosts {
			least := distances(n, from)
			for to := range n.Hosts {
				path := n.Route(from, to)
				at := from
				for _, l := range path {
					if n.Links[l].From != at {
						t.Fatalf("%s: from %d to %d by %v: link %d leaves %d, not %d", text, from, to, path, l, n.Links[l].From, at)
					}
					at = n.Links[l].To
				}
				if at != to {
					t.Fatalf("%s: from %d to %d by %v ends at %d", text, from, to, path, at)
				}
				if shortest && len(path) != least[to] {
					t.Fatalf("%s: from %d to %d by %d links, possible are %d", text, from, to, len(path), least[to])
				}
			}
		}
	}
}

// Equal paths carry similar load if every host sends to every other one.
func TestBalance(t *testing.T) {
	for _, text := range []string{"fattree:8", "leafspine:128,16", "torus:1,8", "torus:6,4", "hx:1,1,8,8"} {
		n := parse(t, text)
		load := make([]int, len(n.Links))
		for from := range n.Hosts {
			for to := range n.Hosts {
				for _, l := range n.Route(from, to) {
					load[l]++
				}
			}
		}
		type kind struct{ fromHost, toHost bool } // links of a kind are to carry the same
		sum, count, most := map[kind]int{}, map[kind]int{}, map[kind]int{}
		for i, l := range n.Links {
			k := kind{l.From < n.Hosts, l.To < n.Hosts}
			sum[k], count[k], most[k] = sum[k]+load[i], count[k]+1, max(most[k], load[i])
		}
		for k := range sum {
			if mean := float64(sum[k]) / float64(count[k]); float64(most[k]) > 1.5*mean {
				t.Errorf("%s: a link of kind %+v carries %d of %.1f on average", text, k, most[k], mean)
			}
		}
	}
}

// The length of a HammingMesh's routes is what the parameters say.
func TestHammingMeshPaths(t *testing.T) {
	const a, b, x, y = 3, 4, 2, 3
	n := parse(t, fmt.Sprintf("hx:%d,%d,%d,%d", a, b, x, y))
	part := func(width, u, c, u2, c2 int) int {
		if u == u2 {
			return max(c-c2, c2-c)
		}
		return min(c, width-1-c) + 2 + min(c2, width-1-c2)
	}
	for from := range n.Hosts {
		for to := range n.Hosts {
			f, g := from/(a*b), to/(a*b) // boards
			want := part(b, f%x, from%b, g%x, to%b) + part(a, f/x, from/b%a, g/x, to/b%a)
			if got := len(n.Route(from, to)); got != want {
				t.Fatalf("from %d to %d: %d links, want %d", from, to, got, want)
			}
		}
	}
}

// maxFlow returns the number of edge-disjoint paths from the hosts of one half to
// those of the other (Ford and Fulkerson).
func maxFlow(n *cluster.Topology, first func(host int) bool) int {
	out := make([][]int, n.Nodes)
	for i, l := range n.Links {
		out[l.From] = append(out[l.From], i)
	}
	flow := make([]int, len(n.Links)) // 1 where used; the links of a cable cancel
	for paths := 0; ; paths++ {
		by := make([]int, n.Nodes) // link by which a node is reached, plus 1; −1 at the start
		var queue []int
		for h := range n.Hosts {
			if first(h) {
				by[h] = -1
				queue = append(queue, h)
			}
		}
		end := -1
		for ; len(queue) > 0 && end < 0; queue = queue[1:] {
			at := queue[0]
			if at < n.Hosts && !first(at) {
				end = at
				break
			}
			for _, l := range out[at] {
				if to := n.Links[l].To; by[to] == 0 && flow[l] < 1 {
					by[to] = l + 1
					queue = append(queue, to)
				}
			}
		}
		if end < 0 {
			return paths
		}
		for at := end; by[at] > 0; at = n.Links[by[at]-1].From {
			l := by[at] - 1
			flow[l]++
			flow[l^1]--
		}
	}
}

func TestBisection(t *testing.T) {
	for _, k := range []struct{ a, b, x, y int }{{2, 2, 2, 2}, {2, 2, 4, 4}, {2, 3, 4, 3}, {4, 4, 4, 2}, {1, 1, 8, 8}} {
		n := parse(t, fmt.Sprintf("hx:%d,%d,%d,%d", k.a, k.b, k.x, k.y))
		west := func(host int) bool { return host/(k.a*k.b)%k.x < k.x/2 }
		if got, want := maxFlow(n, west), k.a*k.y*k.x; got != want {
			t.Errorf("%s: %d links between its halves, want %d", n.Name, got, want)
		}
	}
	n := parse(t, "torus:6,6")
	if got := maxFlow(n, func(h int) bool { return h%6 < 3 }); got != 12 {
		t.Errorf("%s: %d links between its halves, want 12", n.Name, got)
	}
	for _, text := range []string{"fattree:4", "fattree:6", "leafspine:32,16"} { // full bisection
		n := parse(t, text)
		if got := maxFlow(n, func(h int) bool { return h < n.Hosts/2 }); got != n.Hosts/2 {
			t.Errorf("%s: %d links between its halves, want %d", text, got, n.Hosts/2)
		}
	}
}

// Both cycles visit every host once along cables of the torus, and share no cable.
func TestCycles(t *testing.T) {
	for _, k := range [][2]int{{4, 4}, {8, 4}, {4, 8}, {8, 8}, {9, 3}, {16, 4}, {16, 8}, {6, 6}, {12, 6}, {32, 32}} {
		both, err := cluster.HamiltonianCycles(k[0], k[1])
		if err != nil {
			t.Error(err)
			continue
		}
		n := parse(t, fmt.Sprintf("torus:%d,%d", k[0], k[1]))
		cables := map[int]bool{}
		for i, cycle := range both {
			visited := map[int]bool{}
			for j, h := range cycle {
				visited[h] = true
				if path := n.Route(h, cycle[(j+1)%len(cycle)]); len(path) == 1 {
					cables[path[0]/2] = true
				}
			}
			if len(cycle) != n.Hosts || len(visited) != n.Hosts || len(cables) != (i+1)*n.Hosts {
				t.Errorf("%v: cycle %d has %d hosts, %d different ones, and %d cables so far", k, i, len(cycle), len(visited), len(cables))
			}
		}
	}
	for _, k := range [][2]int{{6, 3}, {5, 4}, {4, 2}, {1, 9}} {
		if _, err := cluster.HamiltonianCycles(k[0], k[1]); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%v: error %v, want one of usage", k, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, why := range map[string]string{
		"":                          `unknown kind ""`,
		"ring:4":                    `unknown kind "ring"`,
		"torus:4":                   "torus takes r,c",
		"hx:1,2,3":                  "hx takes a,b,x,y",
		"torus:4,0":                 `c is "0", want a number above 0`,
		"crossbar:many":             `N is "many"`,
		"fattree:5":                 "half the ports of a switch connect up",
		"leafspine:33,8":            "two levels of switches with 8 ports connect up to 32",
		"crossbar:1000000":          "1000000 hosts, want 1 to 131072",
		"hx:1000,1000,1000,1000":    "at most 131072 hosts",
		"dragonfly:9,3037000500,99": "at most 131072 hosts",
	} {
		_, err := cluster.Parse(text, cluster.Cable{})
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.Why, why) || e.Fix == "" {
			t.Errorf("%q: %v, want a usage error with %q and a fix", text, err, why)
		}
	}
	_, err := cluster.Parse("mesh:3", cluster.Cable{})
	if want := "write one of crossbar:N, leafspine:N,radix, fattree:k, torus:r,c, hx:a,b,x,y, dragonfly:p,a,h, ethernet:N"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	for _, c := range []cluster.Cable{{Rate: 10}, {Rate: fast, Delay: -1}} {
		if _, err := cluster.Parse("torus:3,3", c); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%+v: %v, want a usage error", c, err)
		}
	}
}

// Every kind of network has a default cable and accepts another one.
func TestCable(t *testing.T) {
	slow := cluster.Cable{Rate: 2_000_000, Delay: 1}
	for text, want := range map[string]cluster.Cable{"ethernet:3": cluster.EthernetCable, "hx:2,2,2,2": cluster.FastCable} {
		if got := parse(t, text).Links[0].Cable; got != want {
			t.Errorf("%s: cable %+v, want %+v", text, got, want)
		}
		n, err := cluster.Parse(text, slow)
		if err != nil || n.Links[0].Cable != slow {
			t.Errorf("%s: cable %+v (%v), want %+v", text, n.Links[0].Cable, err, slow)
		}
	}
}
