import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('plev', ('plev',), [1500., 500.], standard_name='air_pressure')
f.add('ta', ('number', 'time', 'plev', 'lat', 'lon'), fields((2, 1, 2)), 'f4', units='K'); f.close()
expect('pressure of 1500 without a unit', refusal=dict(code=65, words=['"plev" has no unit', 'Pa or hPa']))
