import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# What cfgrib writes for Lambert grids: two-dimensional coordinates, no axes.
f = File('fc.nc')
f.add('number', ('number',), [0, 1, 2], 'i4', standard_name='realization')
f.add('time', (), 0., standard_name='forecast_reference_time', units='hours since 2024-03-01'); f.add('step', ('step',), [6., 12.], standard_name='forecast_period', units='hours')
f.add('valid_time', ('step',), [6., 12.], standard_name='time', units='hours since 2024-03-01')
j, i = np.mgrid[0:4, 0:6]
f.add('latitude', ('y', 'x'), 46 + 0.03*j - 0.001*i*i, standard_name='latitude', units='degrees_north')
f.add('longitude', ('y', 'x'), 7 + 0.04*i + 0.001*j*i, standard_name='longitude', units='degrees_east')
x = fields((3, 2)); f.add('t2m', ('number', 'step', 'y', 'x'), x, 'f4', standard_name='air_temperature', units='K', coordinates='time latitude longitude valid_time'); f.close()
expect('two-dimensional coordinates without axes', variables={'2t': variable(np.float32(x), members=[0, 1, 2], leads=['6h', '12h'], inits=['2024-03-01T00:00Z'], grid='projected 6x4, 46.09 to 45.975 N, 7 to 7.2 E')})
