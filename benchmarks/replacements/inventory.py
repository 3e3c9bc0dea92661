"""Workers as in inventories/prod.py, as many as NODES says."""

import os

from inventories import prod as _prod

worker = [
    (f"@answering/worker{_number}", _prod.worker[_number % len(_prod.worker)][1])
    for _number in range(int(os.environ["NODES"]))
]
