package program

import (
	"encoding/json"
	"io"
)

// link is an edge in the node-link form. Key distinguishes edges between the same two vertices.
type link struct {
	Edge
	Key int `json:"key"`
}

// nodeLink is the node-link form of a directed graph with parallel edges, as ProGraML writes it and networkx.node_link_graph reads it.
type nodeLink struct {
	Directed   bool     `json:"directed"`
	Multigraph bool     `json:"multigraph"`
	Graph      struct{} `json:"graph"`
	Nodes      []Vertex `json:"nodes"`
	Links      []link   `json:"links"`
}

// WriteJSON writes the graph in the node-link form. The text is stable.
func (g *Graph) WriteJSON(w io.Writer) error {
	f := nodeLink{Directed: true, Multigraph: true, Nodes: g.Vertices}
	keys := map[[2]int]int{}
	for _, e := range g.Edges {
		between := [2]int{e.Source, e.Target}
		f.Links = append(f.Links, link{e, keys[between]})
		keys[between]++
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(f)
}
