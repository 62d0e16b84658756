import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.add('lat', ('lat',), LAT/0.9, standard_name='latitude', units='gon'); f.add('lon', ('lon',), LON, standard_name='longitude', units='degrees')
f.add('t2m', ('time', 'lat', 'lon'), fields((1,)), 'f4', units='K'); f.close()
expect('a latitude in gon', refusal=dict(code=65, words=['unit "gon"', '"lat"']))
