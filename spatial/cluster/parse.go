package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// topologyKinds lists the topologies that Parse accepts, with the names of their
// parameters.
var topologyKinds = []struct {
	name    string
	numbers []string
	cable   Cable // default
	build   func(n []int, c Cable) (*Topology, error)
}{
	{"crossbar", []string{"N"}, FastCable, func(n []int, c Cable) (*Topology, error) { return Crossbar(n[0], c) }},
	{"leafspine", []string{"N", "radix"}, FastCable, func(n []int, c Cable) (*Topology, error) { return LeafSpine(n[0], n[1], c) }},
	{"fattree", []string{"k"}, FastCable, func(n []int, c Cable) (*Topology, error) { return FatTree(n[0], c) }},
	{"torus", []string{"r", "c"}, FastCable, func(n []int, c Cable) (*Topology, error) { return Torus(n[0], n[1], c) }},
	{"hx", []string{"a", "b", "x", "y"}, FastCable, func(n []int, c Cable) (*Topology, error) { return HammingMesh(n[0], n[1], n[2], n[3], c) }},
	{"dragonfly", []string{"p", "a", "h"}, FastCable, func(n []int, c Cable) (*Topology, error) { return Dragonfly(n[0], n[1], n[2], c) }},
	{"ethernet", []string{"N"}, EthernetCable, func(n []int, c Cable) (*Topology, error) { return Ethernet(n[0], c) }},
}

// Parse parses a topology:
//
//	crossbar:N           one switch with N hosts
//	leafspine:N,radix    two levels of switches with radix ports
//	fattree:k            three levels of switches with k ports
//	torus:r,c            r rows and c columns
//	hx:a,b,x,y           HammingMesh of y rows of x boards with a×b hosts
//	dragonfly:p,a,h      groups of a routers with p hosts and h global links
//	ethernet:N           as crossbar, with EthernetCable
//
// The zero Cable selects the default of the kind: EthernetCable for ethernet,
// FastCable for the others.
//
// Errors: exit.Usage for an unknown kind or invalid parameters.
func Parse(text string, c Cable) (*Topology, error) {
	var forms []string
	for _, k := range topologyKinds {
		forms = append(forms, k.name+":"+strings.Join(k.numbers, ","))
	}
	wrong := func(why string) error {
		return usage(fmt.Sprintf("invalid network %q", text), why, "write one of "+strings.Join(forms, ", "))
	}
	name, rest, _ := strings.Cut(text, ":")
	for _, k := range topologyKinds {
		if k.name != name {
			continue
		}
		words := strings.Split(rest, ",")
		if len(words) != len(k.numbers) {
			return nil, wrong(fmt.Sprintf("%s takes %s", name, strings.Join(k.numbers, ",")))
		}
		numbers := make([]int, len(words))
		for i, word := range words {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return nil, wrong(fmt.Sprintf("%s is %q, want a number above 0", k.numbers[i], word))
			}
			numbers[i] = n
		}
		if c == (Cable{}) {
			c = k.cable
		}
		return k.build(numbers, c)
	}
	return nil, wrong(fmt.Sprintf("unknown kind %q", name))
}

// product returns the product of parameters that must all be above 0.
//
// Errors: a product above the maximum number of hosts.
func product(name string, numbers ...int) (int, error) {
	n := 1
	for _, k := range numbers {
		if k < 1 || k > maxHosts || n*k > maxHosts {
			return 0, usage("invalid network "+name, fmt.Sprintf("parameters must be above 0, with at most %d hosts in total", maxHosts), "choose other parameters")
		}
		n *= k
	}
	return n, nil
}
