import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('forecast_reference_time', (), 0., standard_name='forecast_reference_time', units='hours since 2023-11-16')
f.add('time', ('time',), np.float32(8720 + np.arange(1, 5)/24.), 'f4', standard_name='time', units='days since 2000-01-01'); f.axes()
x = fields((4,)); f.add('t2m', ('time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('hours as float32 of days', variables={'2t': variable(np.float32(x), inits=['2023-11-16T00:00Z'], leads=['1h', '2h', '3h', '4h'])})
