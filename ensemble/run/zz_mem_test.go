package run

import (
	"fmt"
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func TestZZ(t *testing.T) {
	k := BenchCase{Model: "unet3d", Base: 32, Crop: Crop{352, 704}, Depth: 2, Batch: 1, Precision: "float32", Threads: 1}
	g, err := k.graph(true)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ZZ") == "1" {
		p, err := engine.Compile(g, k.Options(false))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("one", p.ArenaBytes()>>20, p.ScratchBytes()>>20)
		p.DumpZZ()
		return
	}
	m, _ := spatial.ParseMesh("lat:4")
	err = comm.Run(4, comm.Free, func(c *comm.Comm) error {
		p, err := spatial.CompileShared(g, c, m, k.Options(false))
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println("four", p.ArenaBytes()>>20, p.ScratchBytes()>>20)
			p.DumpZZ()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
