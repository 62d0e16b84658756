import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

b = message(1, field(1), indicatorOfParameter=11, table2Version=2, centre=78, indicatorOfTypeOfLevel=105, level=2)
write('fc.grib1', octets(b, 8, {18: bytes([20, 1, 0, 0])}))
expect('unit of time 20, which edition 1 does not define', refusal=dict(code=65, words=['unit 20,', 'edition 1']))
