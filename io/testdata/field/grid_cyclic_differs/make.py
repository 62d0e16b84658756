import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

lon = np.arange(-180., 181., 60.); y = fields((2, 1), ny=4, nx=7)
f = File('fc.nc'); f.add('number', ('number',), [1, 2], 'i4', standard_name='realization'); f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.axes(lon=lon); f.add('t2m', ('number', 'time', 'lat', 'lon'), y, 'f4', units='K'); f.close()
expect('two columns at one longitude that differ', variables={'2t': variable(np.float32(y[..., :-1]), members=[1, 2], grid='regular_ll 6x4, 60 to 45 N, 0 to 300 E')}, warnings=['stored twice', 'columns at the same longitude differ', 'and it has no lead'])
