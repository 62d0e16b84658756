import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(); f.d['number'].units = '%'
f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K'); f.close()
expect('members in per cent', refusal=dict(code=65, words=['unit "%"', '"number"']))
