import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Cells of ICON or MPAS: clat and clon in radian.
k = np.arange(20)
f = File('fc.nc')
f.add('realization', ('realization',), [1, 2], 'i4', standard_name='realization')
f.add('forecast_reference_time', (), 0., standard_name='forecast_reference_time', units='hours since 2024-03-01')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.add('clat', ('cell',), np.deg2rad(45 + 0.7*k), standard_name='latitude', units='radian')
f.add('clon', ('cell',), np.deg2rad(5 + 0.5*k), standard_name='longitude', units='radian')
x = np.array([[280. + m + 0.1*k] for m in range(2)])
f.add('t_2m', ('realization', 'time', 'cell'), x, 'f4', standard_name='air_temperature', units='K', coordinates='clat clon'); f.close()
expect('points in radian', variables={'2t': variable(np.float32(x), members=[1, 2], levels=['2m'], grid='points 20x1, 45 to 58.3 N, 5 to 14.5 E')})
