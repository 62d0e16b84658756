package cpu

// Options of the backend.
type Options struct {
	Threads int // of the device; 0 means 1
	// Choices repeats the forms of convolutions that an earlier plan chose by
	// timing, by description of the convolution; others are chosen anew.
	Choices map[string]string
	// ByRule chooses forms by a fixed rule instead of timing them: quick, and the
	// same in every process.
	ByRule bool
	// Winograd admits convolutions by Winograd's products, whose results differ
	// from the plain sum by a few 1e-6.
	Winograd bool
}
