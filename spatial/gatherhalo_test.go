package spatial

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// A halo buffer has the values around a rank's shard in the destination of a full
// exchange, row by row, with zeros beyond the ends of the field.
func TestFrameExchange(t *testing.T) {
	s := graph.Shape{2, 3, 2, 7, 9}
	for _, m := range []Mesh{{{Name: "lat", Size: 2}}, {{Name: "lon", Size: 3}}, {{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "lat", Size: 3}, {Name: "lon", Size: 3}}} {
		for _, halo := range []int{1, 2} {
			cuts := map[axisSize]graph.AxisPartition{}
			for _, a := range m {
				axis := fieldAxes[a.Name]
				cuts[axisSize{axis, s[axis]}] = graph.AxisPartition{MeshAxis: a.Name, Starts: ShardStarts(s[axis], a.Size, 1)}
			}
			p := Redistribution{Mesh: m, Shape: s, From: (&sharding{cuts: cuts}).fieldDist(s)}
			p.Room = BoxesOf(m, func(r int) Box {
				room := m.Owned(p.From, s, r)
				for axis := 3; axis < 5; axis++ {
					if p.From.Axes[axis].MeshAxis != "" {
						room[axis] = Interval{room[axis].Lo - halo, room[axis].Hi + halo}
					}
				}
				return room
			})
			p.Need = p.Room.change(3, func(v Interval) Interval { return v.Intersect(Interval{0, s[3]}) }) // longitudes are periodic
			t.Run(fmt.Sprintf("%v, %d around", m, halo), func(t *testing.T) {
				err := comm.Run(m.Size(), comm.Replay(uint64(halo)), func(c *comm.Comm) error {
					own := m.Owned(p.From, s, c.Rank())
					x := make([]float32, own.Size())
					ExtractBox(x, field(3, s), s, own)
					f, _ := p.haloFrame(c.Rank())
					whole, frame := make([]float32, p.room(c.Rank()).Size()), field(9, f.Shape(own.Shape()))
					for i, e := range []func(*comm.Comm, int, Redistribution, int) (*Exchange, error){NewExchange, NewHaloExchange} {
						e, err := e(c, i, p, 4)
						if err != nil {
							return err
						}
						y := bigmem.Bytes([][]float32{whole, frame}[i])
						e.Start(bigmem.Bytes(x))
						e.CopyLocal(y, bigmem.Bytes(x))
						if err := e.Finish(y); err != nil {
							return err
						}
					}
					h, w := own[3].Len(), own[4].Len()
					all := f.PaddedShape(own.Shape())
					seen := 0
					for i, v := range whole {
						plane, row, col := i/(all[3]*all[4]), i/all[4]%all[3], i%all[4]
						if at, apart := f.Locate(h, w, row, col); apart {
							seen++
							if got := frame[plane*f.Shape(own.Shape())[3]+at]; got != v {
								return fmt.Errorf("rank %d, plane %d, row %d, column %d: %v, want %v", c.Rank(), plane, row, col, got, v)
							}
						}
					}
					if seen != len(frame) {
						return fmt.Errorf("rank %d: %d cells of the frame are around its part, it has %d", c.Rank(), seen, len(frame))
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// On the CPU backend, convolutions in the blocked layout read halos from separate
// buffers. Nothing else is gathered, except for the few channels of the last layer.
func TestConvolutionsReadFrames(t *testing.T) {
	n := unet("U-Net", graph.Shape{2, 17, 2, 32, 64}, 6, true)
	for _, m := range []Mesh{{{Name: "lat", Size: 2}}, {{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}} {
		err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			p, err := Compile(n.graph(t), c, m, engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Reuse: engine.Reuse{Store: engine.NewStore()}})
			if err != nil {
				return err
			}
			defer p.Close()
			framed, g := 0, p.Graph()
			for _, n := range g.Nodes {
				switch {
				case n.Kind != graph.KindOp:
				case n.Op.Name == "with_halo":
					framed++
				case strings.HasPrefix(n.Op.Name, "conv3d") && n.Layout == graph.Blocked:
					for _, id := range n.In {
						if x := g.Nodes[id]; x.Kind == graph.KindOp && x.Op == gather {
							return fmt.Errorf("%s %v reads a gathered value", n.Op.Name, n.Shape)
						}
					}
				}
			}
			if framed == 0 {
				return fmt.Errorf("no convolution reads a frame")
			}
			return nil
		})
		if exit.CodeOf(err) == exit.NoDevice {
			t.Skip("skipped: no device: ", err)
		}
		if err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// A limit of memory and workspace also holds on several ranks, with the same bits.
func TestRanksInLessMemory(t *testing.T) {
	n, m := unet("U-Net", graph.Shape{1, 17, 2, 32, 64}, 6, true), Mesh{{Name: "lat", Size: 2}}
	o := engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}
	all, err := n.run(t, m, comm.Parallel, o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var arena, scratch int64
	err = comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
		o := o
		o.Store = engine.NewStore()
		p, err := Compile(n.graph(t), c, m, o)
		if err == nil && c.Rank() == 0 {
			arena, scratch = p.ArenaBytes(), p.ScratchBytes()
		}
		return errors.Join(err, p.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Memory.Limit = (arena + scratch) * 9 / 10
	less, err := n.run(t, m, comm.Parallel, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := less.compare(all, 0, 0); err != nil {
		t.Error(err)
	}
	o.Memory.Limit, o.Workspace = 0, scratch
	if less, err = n.run(t, m, comm.Parallel, o); err != nil {
		t.Fatal(err)
	}
	if err := less.compare(all, 0, 0); err != nil {
		t.Error(err)
	}
	o.Workspace = 1
	if _, err = n.run(t, m, comm.Parallel, o); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a scratch of one byte: %v, want exit code %v", err, exit.Usage)
	}
}
