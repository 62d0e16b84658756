package kernels

import (
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// choices lists the macros with which a program is compiled, by file: one of each list,
// "" for none. Programs that are not listed use fieldChoices.
var choices = map[string][][]string{
	"axis.cu":      {{"PER=32", "PER=8"}}, // any power of two from 4 on
	"bernstein.cu": {},
	"gammas.cu":    {{"FAMILY=0", "FAMILY=1"}},
	"chain.cu":     {}, // alone; the program writes kernels behind it
	"combine.cu":   {},
	"copies.cu":    {{"U=words4", "U=uint32_t", "U=uint16_t"}},
	"layout.cu":    {{"T=float", "T=bf16", "T=f16"}},
	"moments.cu":   {},
	"optim.cu":     {},
	"points.cu":    {{"T=float"}},
	"scores.cu":    {{"FAMILY=0", "FAMILY=1", "FAMILY=2", "FAMILY=3", "FAMILY=4", "FAMILY=5", "FAMILY=6", "FAMILY=7"}},
	"setdot.cu":    {},
	"sets.cu":      {{"SIZE=2", "SIZE=128", "SIZE=16"}}, // any power of two
	"softmax.cu":   {},
	"sums.cu":      {{"T=float", "T=bf16", "T=f16"}},
	"windows.cu":   {{"T=u8", "T=float", "T=bf16", "T=f16"}, {"", "LAST=1"}},
}

// fieldChoices are fields of any storage type, plain or with channels last.
var fieldChoices = [][]string{{"T=float", "T=bf16", "T=f16"}, {"", "LAST=1"}}

// Variants returns each program with all combinations of macros in use. A test compiles
// them for each architecture, so that a macro that breaks a rare combination is found
// without a GPU.
func Variants() []device.Program {
	var all []device.Program
	for _, file := range Files() {
		if strings.HasPrefix(file, "conv") || file == "localconv.cu" {
			continue // in convtiles.go
		}
		lists, ok := choices[file]
		if !ok {
			lists = fieldChoices
		}
		defines := [][]string{nil}
		for _, list := range lists {
			var more [][]string
			for _, d := range defines {
				for _, choice := range list {
					if choice == "" {
						more = append(more, d)
					} else {
						more = append(more, append(d[:len(d):len(d)], choice))
					}
				}
			}
			defines = more
		}
		for _, d := range defines {
			all = append(all, Program(file, d...))
		}
	}
	return append(all, convVariants()...)
}

// Variant returns the name of a program with its macros.
func Variant(p device.Program) string {
	return strings.Join(append([]string{p.Name}, p.Defines...), " ")
}
