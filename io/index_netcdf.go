package fio

import "context"

type slab struct{}

type ncGrids struct{}

func indexNetCDF(ctx context.Context, in *Input, f *file) error { return nil }

func (in *Input) decodeNetCDF(ctx context.Context, b *batch) error { return nil }
