import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

S = 'Hour since 2024-03-01T00:00:00Z'
f = File('fc.nc'); f.add('reftime', (), 0., units=S, standard_name='forecast_reference_time'); f.add('time1', ('time1',), [6., 12.], units=S, standard_name='time')
f.add('height_above_ground4', ('height_above_ground4',), [2.], 'f4', units='m', positive='up'); f.add('isobaric', ('isobaric',), [50000., 85000.], 'f4', units='Pa', positive='down'); f.axes()
x, y = fields((2, 1)), fields((2, 2), 290.)
f.add('Temperature_height_above_ground', ('time1', 'height_above_ground4', 'lat', 'lon'), x, 'f4', units='K', coordinates='reftime time1 height_above_ground4 lat lon')
f.add('Temperature_isobaric', ('time1', 'isobaric', 'lat', 'lon'), y, 'f4', units='K', coordinates='reftime time1 isobaric lat lon'); f.close()
expect('names of THREDDS', variables={'2t': variable(np.float32(x), levels=['2m'], leads=['6h', '12h'], inits=['2024-03-01T00:00Z']), 't': variable(np.float32(y), levels=['500hPa', '850hPa'], leads=['6h', '12h'])})
