import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(); f.add('height', (), 10., standard_name='height', units='m')
f.add('temperature_2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', coordinates='height'); f.close()
expect('a name with another level than the coordinate', refusal=dict(code=65, words=['its name states the level 2m', '10m']))
