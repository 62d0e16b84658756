// Package unet3d holds the networks. Each is a function that extends a graph:
// it takes the builder and the input value and returns the output value, with
// every parameter under the name and in the shape of the published PyTorch model,
// so that weights go to and fro without a table of names.
//
// Fields are [N C D H W]: batch, channel, level, latitude, longitude.
package unet3d
