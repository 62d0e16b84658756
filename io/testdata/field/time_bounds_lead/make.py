import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# The middle of the interval in time and lead, as in seasonal forecasts.
f = File('fc.nc')
f.add('time', ('time',), [15., 45.], units='days since 2024-01-01', standard_name='time', bounds='time_bnds'); f.add('time_bnds', ('time', 'two'), [[0., 30.], [30., 60.]])
f.add('leadtime', ('time',), [15., 45.], units='days', standard_name='forecast_period'); f.axes()
x = fields((2,)); f.add('t2m', ('time', 'lat', 'lon'), x, 'f4', units='K', cell_methods='time: mean'); f.close()
expect('lead and time are the middle of the interval', variables={'2t': variable(np.float32(x), inits=['2024-01-01T00:00Z'], leads=['720h', '1440h'], statistic='mean', interval='720h')})
