// Package explain shows how the compiler transforms a network: its graph after every pass, its plan, memory
// and estimated times, as text, JSON or HTML page. Engineers use it to find what a step costs and why:
//
//	r, err := explain.Run(ctx, explain.Options{Config: c})
//	err = r.Sections().WriteText(os.Stdout)
package explain
