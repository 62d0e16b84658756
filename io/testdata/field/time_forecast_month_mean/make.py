import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Seasonal forecasts: the first month is that of the initialisation.
f = File('fc.nc')
f.add('forecast_reference_time', ('forecast_reference_time',), [0.], standard_name='forecast_reference_time', units='days since 2024-02-01'); f.add('forecastMonth', ('forecastMonth',), [1, 2], 'i4', units='1'); f.axes()
x = fields((1, 2)); f.add('t2m', ('forecast_reference_time', 'forecastMonth', 'lat', 'lon'), x, 'f4', units='K', cell_methods='time: mean'); f.close()
expect('means over numbered months', variables={'2t': variable(np.float32(x), unit='K', statistic='mean', interval='696h', leads=['696h', '1440h'])}, warnings=['leads "forecastMonth" are taken for calendar months'])
