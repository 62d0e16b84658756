import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

import zipfile
with zipfile.ZipFile(here('fc.zip'), 'w') as z:
    z.writestr('fc.grib2', b'GRIB')
expect('an archive of files', refusal=dict(code=65, words=['zip archive without Zarr metadata', 'unzip']))
