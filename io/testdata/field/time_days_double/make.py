import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(members=(1,), hours=6 + np.arange(1, 9), since='2023-11-16'); f.close()
h = 6 + np.arange(1, 9)
f = File('fc.nc'); f.add('number', ('number',), [1], 'i4', standard_name='realization')
f.add('forecast_reference_time', (), 6., standard_name='forecast_reference_time', units='hours since 2023-11-16')
f.add('time', ('time',), 738841.0 + h/24.0, standard_name='time', units='days since 1-1-1 00:00:0.0'); f.axes()
x = fields((1, 8)); f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('hours as doubles of days since year 1', variables={'2t': variable(np.float32(x), members=[1], inits=['2023-11-16T06:00Z'], leads=['%dh' % k for k in range(1, 9)])})
