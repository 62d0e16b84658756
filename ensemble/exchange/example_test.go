package exchange_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/exchange"
)

// Export the weights of a training under the names of the published PyTorch networks.
func ExampleExport() {
	r, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: "runs/a", Out: "exported", Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Networks, "networks in", r.Out)
}

// Import weights of a published network, and apply it to a tensor.
func ExampleImport() {
	r, err := exchange.Import(context.Background(), exchange.ImportOptions{
		Weights: "weights.safetensors", Out: "models/published", Apply: "input.safetensors", To: "output.safetensors", Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Network)
}
