import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', scale_factor='one'); f.close()
expect('scale_factor as a word', refusal=dict(code=65, words=['scale_factor is the text "one"']))
