import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
x = fields((2, 1)); D = ('number', 'time', 'lat', 'lon')
f.add('temperature_2m', D, x, 'f4', units='K'); f.add('temperature_850hPa', D, x + 1, 'f4', units='K'); f.add('z500', D, x*9.80665*20, 'f4', units='m2 s-2')
f.add('wind_u_10m', D, x - 280, 'f4', units='m s-1'); f.add('100m_u_component_of_wind', D, x - 279, 'f4', units='m s-1'); f.add('maximum_temperature_2m', D, x + 2, 'f4', units='K', standard_name='air_temperature'); f.close()
expect('names that contain the level', variables={
    '2t': variable(np.float32(x), members=[1, 2], levels=['2m']), 't': variable(np.float32(x + 1), members=[1, 2], levels=['850hPa']), 'z': variable(np.float32(x*9.80665*20), members=[1, 2], levels=['500hPa']),
    '10u': variable(np.float32(x - 280), members=[1, 2], levels=['10m']), 'u': variable(np.float32(x - 279), members=[1, 2], levels=['100m']),
    'maximum_temperature_2m': variable(np.float32(x + 2), members=[1, 2], levels=['2m'])})
