import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('height', (), 2., standard_name='height', units='fathom')
f.add('ta', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', standard_name='air_temperature', coordinates='height'); f.close()
expect('a height in a unknown unit', refusal=dict(code=65, words=['unit "fathom"', '"height"']))
