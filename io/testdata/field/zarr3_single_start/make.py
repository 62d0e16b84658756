import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from stores import *

# The code of the only initialisation is 0, the fill value, so its chunk is not written.
x = np.float32(fields((1, 2, 2)))
ensemble('t2m', x, 'K').to_zarr(here('fc.zarr'), zarr_format=3); assert not [n for n in os.listdir(here('fc.zarr/init_time')) if n in ('0', 'c')]; pack('fc.zarr')
expect('a store of one initialisation', variables={'2t': variable(x, members=[1, 2], inits=['2024-03-01T00:00Z'], leads=['6h', '12h'])}, warnings=['array init_time: its only chunk is absent'])
