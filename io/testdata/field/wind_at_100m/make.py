import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(); f.add('h10', (), 10., standard_name='height', units='m'); f.add('h100', (), 100., standard_name='height', units='m')
x = fields((2, 1), 8.); D = ('number', 'time', 'lat', 'lon')
f.add('ws10', D, x, 'f4', units='m s-1', standard_name='wind_speed', coordinates='h10'); f.add('ws100', D, x + 1, 'f4', units='m s-1', standard_name='wind_speed', coordinates='h100'); f.close()
expect('wind at 100 m is not that at 10 m', variables={'10si': variable(np.float32(x), members=[1, 2], levels=['10m']), 'wind_speed': variable(np.float32(x + 1), members=[1, 2], levels=['100m'])})
