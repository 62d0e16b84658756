package protocol_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/run/protocol"
)

// The size of the ENS-10 protocol. Nothing is downloaded.
func ExampleRequest() {
	p, err := protocolfile.Load("ens10")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := protocol.Request(context.Background(), protocol.RequestOptions{Protocol: p, DiskGBs: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Inits, "initialisations,", len(r.Files), "files")
	// Output: 2100 initialisations, 692 files
}

// Write synthetic data in the layout of a protocol, on a coarse grid.
func ExampleSynthesize() {
	p, err := protocolfile.Load("ens10")
	if err != nil {
		log.Fatal(err)
	}
	if p, err = p.Subset(1998, 2001, 6, 20, 40, 3); err != nil { // years, dates, rows, columns, members
		log.Fatal(err)
	}
	r, err := protocol.Synthesize(context.Background(), protocol.SynthesizeOptions{Protocol: p, Out: "archive", Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Files, "files")
}
