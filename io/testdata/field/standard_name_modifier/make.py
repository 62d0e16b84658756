import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', standard_name='air_temperature standard_error'); f.close()
expect('a standard name with a modifier', refusal=dict(code=65, words=['air_temperature standard_error', 'standard error']))
