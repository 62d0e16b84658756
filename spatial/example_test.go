package spatial_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

func ExampleParseMesh() {
	m, err := spatial.ParseMesh("data:2 lon:4")
	if err != nil {
		panic(err)
	}
	const rank = 6
	fmt.Println(m.Size(), "ranks")
	fmt.Println("rank", rank, "is at data", m.Coordinate(rank, "data"), "and lon", m.Coordinate(rank, "lon"))
	fmt.Println("ranks along lon:", m.Group(rank, []string{"lon"}))
	_, err = spatial.ParseMesh("data:2 east:4")
	fmt.Println(err)
	// Output:
	// 8 ranks
	// rank 6 is at data 1 and lon 2
	// ranks along lon: [4 5 6 7]
	// error[E064]: invalid mesh axis "east:4"
	//   at: data:2 east:4
	//   why: valid axes are data, channel, level, lat and lon, each at most once, with a number of ranks
	//   fix: write "data:2 lon:4", or "lon:4@2x11x22=channel" to split the channels of fields of that size
}

func ExampleMeshes() {
	for _, m := range spatial.Meshes(4, []spatial.MeshAxis{{Name: "lat", Size: 2}, {Name: "lon", Size: 8}}) {
		fmt.Println(m)
	}
	// Output:
	// lon:4
	// lat:2 lon:2
}

func ExampleShardStarts() {
	fmt.Println(spatial.ShardStarts(11, 3, 1)) // sizes 4, 4 and 3
	fmt.Println(spatial.ShardStarts(14, 3, 2)) // sizes 6, 4 and 4: multiples of 2
	// Output:
	// [0 4 8]
	// [0 6 10]
}

// The halo of a filter of size 3 on 12 longitudes in 3 shards.
func ExampleInputsRead() {
	filter := graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, Periodic: true}
	lon := graph.AxisPartition{MeshAxis: "lon", Starts: []int{0, 4, 8}}
	for rank := range 3 {
		own := spatial.OwnedInterval(lon, rank, 12)
		fmt.Println("rank", rank, "owns", own, "requires", spatial.InputsRead(filter, own, 12))
	}
	for _, p := range spatial.Sources(lon, spatial.Interval{Lo: -1, Hi: 5}, 12) {
		fmt.Println("rank 0 reads", p.At, "of rank", p.Rank)
	}
	// Output:
	// rank 0 owns {0 4} requires [{-1 5}]
	// rank 1 owns {4 8} requires [{3 9}]
	// rank 2 owns {8 12} requires [{7 13}]
	// rank 0 reads {11 12} of rank 2
	// rank 0 reads {0 4} of rank 0
	// rank 0 reads {4 5} of rank 1
}
